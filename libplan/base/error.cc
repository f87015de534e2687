#include "libplan/base/error.h"

namespace plan {

void throw_check_failure(const char* condition, const char* file, int line) {
  throw InternalError(std::string("internal error: ") + condition + " does not hold at " + file +
                      ":" + std::to_string(line));
}

}  // namespace plan
