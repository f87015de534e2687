// Files of tests/, wherever the test program runs.
#pragma once

#include <cstdlib>
#include <string>

#include "libplan/base/files.h"

namespace plan {

inline std::string read_test_file(const std::string& name) {
  const char* folder = std::getenv("PLAN_TEST_DATA");
  return read_file(std::string(folder == nullptr ? "tests" : folder) + "/" + name);
}

}  // namespace plan
