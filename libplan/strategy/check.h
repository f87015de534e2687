// Validates a strategy list: every entry against the model, the rank grid and the version of
// Megatron-Core, and every switch between two entries. One stable id per rule (S101 to S908;
// check_rules.cc has the table). All findings are reported, in the order of the text, then by id.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/model/megatron_version.h"
#include "libplan/strategy/model_facts.h"
#include "libplan/strategy/strategy.h"
#include "libplan/topology/topology.h"

namespace plan::check {

enum class Severity : std::uint8_t { Note, Warning, Error };

std::string_view name_of(Severity severity);  // "note", "warning", "error"

struct Diagnostic {
  std::string rule;
  Severity severity = Severity::Error;
  std::optional<std::int32_t> entry;  // absent: about the text, or the model
  std::string name;                   // of the entry; may be empty
  std::string pointer;                // JSON pointer; "" is the whole text
  std::int32_t line = 1;              // 1-based
  std::int32_t column = 1;            // 1-based, in bytes
  std::string message;                // required and found
  std::string fix;                    // may be empty
  friend bool operator==(const Diagnostic&, const Diagnostic&) = default;
};

struct Selector {
  std::string option;  // "--from"
  std::string value;   // a name or an index
};

struct Options {
  std::optional<MegatronVersion> version;  // absent: newest; rules of older versions are then notes
  std::optional<Topology> topology;
  std::vector<DeviceId> dead_ranks;
  std::vector<Selector> selectors;
  std::optional<std::int64_t> memory_limit;  // bytes per rank
  std::optional<std::int64_t> seq_length;
  std::optional<std::int64_t> global_batch_size;
  std::int64_t micro_batch_size = 1;
  bool compat_elastic = false;
  // Defaults of the layout options that an entry may set.
  bool overlap_grad_reduce = false;
  std::optional<std::int64_t> ddp_bucket_size;
  std::optional<std::int32_t> ddp_num_buckets;
  bool ddp_pad_buckets_for_high_nccl_busbw = false;
  bool accumulate_allreduce_grads_in_fp32 = true;
  // What the target needs and no living device of the source holds (names of tensor, box and dead
  // ranks); nothing if all is there. Asked for every ordered pair when there are dead ranks.
  std::function<std::optional<std::string>(const Strategy& source, const Strategy& target)>
      lost_state;
};

// Never throws for what is in the text.
std::vector<Diagnostic> check(std::string_view text, const std::string& source_name,
                              const ModelFacts& facts, const Options& options);

// 2: the text is no JSON or no list (S101-S104); 1: an error, or a warning when `strict`; else 0.
int exit_status(const std::vector<Diagnostic>& diagnostics, bool strict);

}  // namespace plan::check
