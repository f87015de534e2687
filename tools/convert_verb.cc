#include "libplan/schedule/plan_file.h"
#include "tools/verbs.h"

namespace plan::tools {

int run_convert_verb(const ConvertArgs& args) {
  write_plan(read_plan(args.from), args.to);
  return 0;
}

}  // namespace plan::tools
