// All 44 layouts dumped from Megatron-Core, value by value.
//
// One table of cases and fields: build/tests/layout/layout_test "[table]"
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>

#include "tests/layout/compare_golden.h"

namespace plan {
namespace {

std::vector<FieldResult> compare(const std::string& name) {
  const GoldenCase golden = read_golden_case(name);
  std::vector<FieldResult> results = compare_placement(golden);
  for (FieldResult& field : compare_shard_map(golden)) results.push_back(std::move(field));
  return results;
}

TEST_CASE("golden layouts") {
  REQUIRE(golden_case_names().size() == 44);
  for (const std::string& name : golden_case_names()) {
    DYNAMIC_SECTION(name) {
      for (const FieldResult& field : compare(name)) {
        INFO(field.field());
        CHECK(field.compared() > 0);
        std::string faults;
        for (const std::string& fault : field.faults()) faults += "\n  " + fault;
        CHECK(faults == "");
      }
    }
  }
}

TEST_CASE("golden layouts as a table", "[.][table]") {
  std::vector<std::string> fields;
  std::vector<std::int64_t> passed;
  std::size_t whole = 0;
  const std::vector<std::string> names = golden_case_names();
  for (const std::string& name : names) {
    const std::vector<FieldResult> results = compare(name);
    if (fields.empty()) {
      std::printf("%-42s", "case");
      for (const FieldResult& field : results) {
        fields.push_back(field.field());
        std::printf(" %*s", std::max(6, static_cast<int>(field.field().size())),
                    field.field().c_str());
      }
      std::printf("\n");
      passed.resize(fields.size(), 0);
    }
    std::printf("%-42s", name.c_str());
    bool good = true;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const bool ok = results[i].differing() == 0 && results[i].compared() > 0;
      passed[i] += ok ? 1 : 0;
      good = good && ok;
      std::printf(" %*s", std::max(6, static_cast<int>(fields[i].size())), ok ? "ok" : "FAIL");
    }
    whole += good ? 1 : 0;
    std::printf("\n");
  }
  std::printf("%-42s", "cases passed");
  for (std::size_t i = 0; i < fields.size(); ++i) {
    std::printf(" %*lld", std::max(6, static_cast<int>(fields[i].size())),
                static_cast<long long>(passed[i]));
  }
  std::printf("\n%zu of %zu cases pass in every field\n", whole, names.size());
  CHECK(whole == names.size());
}

}  // namespace
}  // namespace plan
