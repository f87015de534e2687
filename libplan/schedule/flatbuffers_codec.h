// The binary form of a Schedule (schemas/schedule.fbs), for load time.
//
// A file is a header of 64 bytes, an index and one buffer per rank; the index gives each buffer's
// place and SHA-256, the header the index's. A rank that runs a plan reads the index and its own
// buffer alone. All numbers are little-endian; every part starts at a multiple of 16 bytes.
#pragma once

#include <ostream>
#include <string>
#include <string_view>

#include "libplan/schedule/ir.h"

namespace plan {

// True if the bytes start like the binary form.
bool is_flatbuffers(std::string_view bytes);

// Error(BadInput) for a schedule that validate() or parse_request() refuses, Error(Unsupported) if
// one rank's program takes 2^31 bytes, Error(Io) if the stream fails. Holds the encoded programs
// in memory. Equal contents give equal bytes.
void write_flatbuffers(const ir::Schedule& schedule, std::ostream& stream);
std::string write_flatbuffers(const ir::Schedule& schedule);

// The schedule in canonical arrangement, validated. Error(Unreadable) for other or truncated bytes,
// Error(BadInput) for another version, wrong values, or a digest that does not match.
ir::Schedule read_flatbuffers(std::string_view bytes, const std::string& source_name = "plan");

// One rank's program with the plan's head. `plan_digest` is the digest of the whole plan, the same
// on every rank; it has been checked against the head, the index and this program.
struct PlanPart {
  ir::Schedule schedule;
  std::string plan_digest;
};
PlanPart read_flatbuffers_part(std::string_view bytes, RankId rank,
                               const std::string& source_name = "plan");

}  // namespace plan
