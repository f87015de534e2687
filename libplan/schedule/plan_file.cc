#include "libplan/schedule/plan_file.h"

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/schedule/flatbuffers_codec.h"
#include "libplan/schedule/json_codec.h"

namespace plan {

ir::Schedule read_plan(const std::string& path) {
  const std::string bytes = read_file(path);
  return is_flatbuffers(bytes) ? read_flatbuffers(bytes, path) : read_json(bytes, path);
}

void write_plan(const ir::Schedule& schedule, const std::string& path) {
  const bool json = path == "-" || path.ends_with(".json");
  if (!json && !path.ends_with(".fb")) {
    throw Error(ErrorCode::Usage, "expected a file name that ends in .json or .fb", path);
  }
  AtomicFile file(path);
  if (json) {
    write_json(schedule, file.stream());
  } else {
    write_flatbuffers(schedule, file.stream());
  }
  file.commit();
}

}  // namespace plan
