// Which bytes of each message are payload, and which are vocabulary padding.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "libplan/schedule/ir.h"

namespace plan {

struct MessagePayload {
  RankId sender;
  RankId receiver;
  std::int32_t window = 0;
  std::int64_t bytes = 0;  // without padding and opaque state
  std::int64_t padding_bytes = 0;
  std::int64_t opaque_bytes = 0;
};

// One entry per message, ascending by message number. Bytes that pass through scratch are followed
// to where they came from. The schedule has passed validate() and holds all programs.
std::vector<MessagePayload> message_payloads(const ir::Schedule& schedule);

// True if the storage's bytes at this offset belong to vocabulary padding.
bool is_padding(const ir::Schedule& schedule, const ir::Program& program, const ir::Slice& slice);

}  // namespace plan
