// read_json on any bytes: a schedule that reads back as itself, or an Error.
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/schedule/json_codec.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/schedule/sample_schedules.h"

namespace {

std::string to_json(const plan::ir::Schedule& schedule) {
  std::ostringstream stream;
  plan::write_json(schedule, stream);
  return stream.str();
}

}  // namespace

std::string good_input(std::uint32_t seed) {
  return to_json(seed % 8 == 0 ? plan::every_field() : plan::random_schedule(seed));
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  plan::ir::Schedule schedule;
  try {
    schedule = plan::read_json(text, "fuzz.json");
  } catch (const plan::Error&) {
    return 0;
  }
  PLAN_CHECK(plan::read_json(to_json(schedule), "again.json") == schedule);
  return 0;
}
