// read_flatbuffers on any bytes: a schedule that reads back as itself, or an Error. The hashes of
// the input are also put right, since no chance change would get past them.
#include <cstring>

#include "libplan/base/digest.h"
#include "libplan/base/error.h"
#include "libplan/schedule/flatbuffers_codec.h"
#include "libplan/schedule/flatbuffers_file.h"
#include "schemas/schedule_generated.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/schedule/sample_schedules.h"

namespace {

std::uint64_t number_at(const std::string& bytes, std::size_t offset) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

void put_hash(std::string& bytes, std::size_t at, std::string_view hashed) {
  const plan::Sha256Digest digest = plan::sha256(hashed);
  std::memcpy(bytes.data() + at, digest.data(), digest.size());
}

// Replaces the hashes of the programs and the index, as far as they can be found.
std::string with_hashes(std::string bytes) {
  if (bytes.size() < plan::wire::kHeaderBytes) return bytes;
  const std::uint64_t size = bytes.size();
  std::memcpy(bytes.data() + 16, &size, sizeof(size));
  const std::uint64_t index_size = number_at(bytes, 24);
  if (index_size > size - plan::wire::kHeaderBytes || index_size >= 1U << 30U) return bytes;
  const std::string_view index(bytes.data() + plan::wire::kHeaderBytes, index_size);
  const auto* start = reinterpret_cast<const std::uint8_t*>(index.data());
  flatbuffers::Verifier verifier(start, index.size());
  if (verifier.VerifyBuffer<plan::wire::Index>(nullptr)) {
    const auto& programs = *flatbuffers::GetRoot<plan::wire::Index>(start)->programs();
    const auto entries_at =
        static_cast<std::size_t>(reinterpret_cast<const char*>(programs.Data()) - bytes.data());
    for (std::size_t i = 0; i < programs.size(); ++i) {
      const std::size_t entry_at = entries_at + i * sizeof(plan::wire::ProgramEntry);
      const std::uint64_t offset = number_at(bytes, entry_at);
      const std::uint64_t length = number_at(bytes, entry_at + 8);
      if (offset > size || length > size - offset) continue;
      put_hash(bytes, entry_at + 20, std::string_view(bytes).substr(offset, length));
    }
  }
  put_hash(bytes, 32, index);
  return bytes;
}

void decode(std::string_view bytes) {
  plan::ir::Schedule schedule;
  try {
    schedule = plan::read_flatbuffers(bytes);
  } catch (const plan::Error&) {
    return;
  }
  PLAN_CHECK(plan::read_flatbuffers(plan::write_flatbuffers(schedule)) == schedule);
}

}  // namespace

std::string good_input(std::uint32_t seed) {
  return plan::write_flatbuffers(seed % 8 == 0 ? plan::every_field() : plan::random_schedule(seed));
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  decode(bytes);
  decode(with_hashes(bytes));
  return 0;
}
