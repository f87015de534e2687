// Writes the sample plans in both forms into a folder: for check_schema.py, and as a corpus for the
// fuzz targets.
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
  for (const char* suffix : {".json", ".fb"}) {
    plan::write_plan(plan::every_field(), folder + "/every_field" + suffix);
    plan::write_plan(plan::four_by_four(), folder + "/four_by_four" + suffix);
    plan::write_plan(plan::ir::Schedule{}, folder + "/empty" + suffix);
    for (std::uint32_t seed = 0; seed < 20; ++seed) {
      plan::write_plan(plan::random_schedule(seed),
                       folder + "/random_" + std::to_string(seed) + suffix);
    }
  }
  return 0;
}
