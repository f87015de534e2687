// The independent checker: Schedule + source and target Layout -> every finding.
//
// Shares no code with optimize/, lowering or cost/. A Report without findings means: every target
// element is written exactly once with the right element; nothing is read before it is there or
// after it is freed or overwritten; sends and receives match in rank, window, size and order; no
// wait cycle exists under rendezvous semantics; no access leaves its storage. A bad schedule never
// throws: the structure is checked first, and when it is broken only that is reported.
//
// Contents are followed as boxes, not as elements: O(n log n) in slices plus pieces for schedules
// whose slices address boxes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/box.h"
#include "libplan/base/ids.h"
#include "libplan/layout/layout.h"
#include "libplan/schedule/ir.h"

namespace plan::verify {

struct Rule {
  std::string_view id;
  std::string_view meaning;
};

// Ids are stable: V0xx structure, V1xx request, V2xx messages, V3xx data flow, V4xx memory.
inline constexpr std::array kRules = {
    Rule{"V001", "the table of ranks is not numbered 0..n-1 with ascending workers"},
    Rule{"V002", "a program belongs to no rank of the table, or a rank has two programs"},
    Rule{"V003", "a range leaves its array"},
    Rule{"V004", "an id or an enumeration value does not exist"},
    Rule{"V005", "a number is negative or outside its limits"},
    Rule{"V006", "a size or an address leaves the range of 64-bit integers"},
    Rule{"V007", "windows are not ascending inside the schedule's number of windows"},
    Rule{"V008", "a piece is not a box of its tensor inside its storage"},
    Rule{"V009", "two windows share an op"},
    Rule{"V010", "two tensors or two states have one name"},
    Rule{"V101", "the plan is stale: an input's digest is not the one it was made for"},
    Rule{"V102", "a tensor differs from the layout's"},
    Rule{"V103", "a storage of the layout is missing in the rank's program"},
    Rule{"V104", "a storage of the program is not in the layout, or is there twice"},
    Rule{"V105", "a storage's dtype, size or memory differs from the layout's"},
    Rule{"V106", "a storage's pieces differ from the layout's shards"},
    Rule{"V107", "a worker of the target layout has no rank"},
    Rule{"V108", "a rank's role differs from what the layouts give it"},
    Rule{"V201", "a message number is used twice on one side"},
    Rule{"V202", "a message has only one end"},
    Rule{"V203", "the two ends of a message name different ranks"},
    Rule{"V204", "the two ends of a message are in different windows"},
    Rule{"V205", "the two ends of a message have different sizes"},
    Rule{"V206", "a window has two messages between one ordered pair of ranks"},
    Rule{"V207", "sends or receives of a window are not ascending by peer"},
    Rule{"V208", "a window has more sends and receives than window_ops"},
    Rule{"V209", "a rank sends to or receives from itself"},
    Rule{"V210", "ranks wait for each other in a cycle"},
    Rule{"V301", "the two sides of a copy or conversion have different sizes"},
    Rule{"V302", "a storage is allocated wrongly: a source, twice, or a target never"},
    Rule{"V303", "a storage is freed wrongly: twice, not live, a target, or taken over"},
    Rule{"V304", "an op touches a storage before it is allocated"},
    Rule{"V305", "an op touches a storage after it is freed"},
    Rule{"V306", "an op reads bytes that hold nothing yet"},
    Rule{"V307", "two ops of one phase touch the same bytes and one of them writes"},
    Rule{"V308", "a target element is written more than once"},
    Rule{"V309", "a target element is never written"},
    Rule{"V310", "a wrong element is written"},
    Rule{"V311", "an alias is not the takeover of an equal source storage of its rank"},
    Rule{"V312", "source bytes are overwritten while they are needed"},
    Rule{"V313", "a source is freed although the rank can still be rolled back"},
    Rule{"V314", "an element that is no vocabulary padding is filled"},
    Rule{"V315", "an op writes bytes that carry no state"},
    Rule{"V316", "dtypes differ, or a value is rounded twice"},
    Rule{"V317", "too irregular to check"},
    Rule{"V401", "a slice leaves its storage"},
    Rule{"V402", "a slice cuts through an element"},
    Rule{"V403", "a rank's peak memory is above the limit"},
    Rule{"V404", "a slice names more bytes than its storage has"},
};

struct Diagnostic {
  std::string rule;
  std::string message;  // what was required and what was found
  std::optional<RankId> rank;
  std::optional<std::int32_t> window;
  std::string op;      // e.g. "receive 3 from rank 2, slice 1"; may be empty
  std::string tensor;  // names; may be empty
  std::string state;
  std::optional<Box> box;  // in canonical coordinates of `tensor`
};

// "V309 rank 2: ... (tensor a.weight, main_param, [0, 2) x [0, 4))": one line.
std::string to_string(const Diagnostic& diagnostic);

struct Options {
  std::size_t max_findings_per_rule = 100;
  std::optional<std::int64_t> memory_limit;  // bytes of device memory of each rank
  // Digests of inputs given beside the plan; an empty string is not compared.
  std::optional<ir::Digests> expected_digests;
};

struct Report {
  std::vector<Diagnostic> findings;
  std::int64_t suppressed = 0;  // findings beyond max_findings_per_rule
  // Every rank's program is there. Otherwise the two ends of a message are only compared where both
  // programs are, and what comes from an absent rank is taken for right.
  bool complete = false;
  // Per rank; storages alive with scratch, an alias and its source counted once; 0 for ranks
  // without a program.
  std::vector<std::int64_t> peak_bytes;       // device memory
  std::vector<std::int64_t> peak_host_bytes;  // host memory
  std::int64_t messages = 0;                  // sends
  std::int64_t checked_bytes = 0;             // target bytes proved to be written right
  bool ok() const { return findings.empty(); }
};

// Both layouts must have been unified (layout.h). Tensors and states are matched by name. A source
// worker without a rank is dead or left out; a target worker without a rank is a finding.
Report verify(const ir::Schedule& schedule, const Layout& source, const Layout& target,
              const Options& options = {});

}  // namespace plan::verify
