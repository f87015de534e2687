// Writes the sample plans as JSON into a folder; check_schema.py reads them.
#include <cstdio>
#include <string>

#include "libplan/schedule/plan_file.h"
#include "tests/schedule/sample_schedules.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_sample_plans FOLDER\n");
    return 2;
  }
  const std::string folder = argv[1];
  plan::write_plan(plan::every_field(), folder + "/every_field.json");
  plan::write_plan(plan::four_by_four(), folder + "/four_by_four.json");
  plan::write_plan(plan::ir::Schedule{}, folder + "/empty.json");
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    plan::write_plan(plan::random_schedule(seed),
                     folder + "/random_" + std::to_string(seed) + ".json");
  }
  return 0;
}
