// The chief oracle: fills all sources with position-coded values, replays, and compares every
// element of every target with the value that its place in the logical tensor demands.
//
// It knows pieces and names only, nothing of ops, windows or routes, so it judges planners,
// lowerings and executors alike. Elements of one or two bytes collide by chance (1 in 256 or
// 65,536): use several seeds. Cost: about a nanosecond an element on each side, spread over all
// cores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libplan/execute/host/host_memory.h"
#include "libplan/execute/host/host_replay.h"
#include "libplan/execute/host/oracle_values.h"
#include "libplan/schedule/ir.h"

namespace plan {

struct Mismatch {
  RankId rank;
  StorageId storage;
  std::string binding_key;
  std::string tensor;
  std::string state;
  Dims index;  // in the tensor's canonical shape
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

struct CheckReport {
  static constexpr std::size_t kMostKept = 8;

  std::int64_t elements = 0;  // compared
  std::int64_t mismatches = 0;
  std::vector<Mismatch> first;       // at most kMostKept, ascending by rank, storage, piece
  std::vector<std::string> missing;  // targets that are not live: "rank 3, storage 7 (key)"

  bool ok() const { return mismatches == 0 && missing.empty(); }
};

// Several lines: counts, then the first mismatches.
std::string to_string(const CheckReport& report);

// Writes every piece of every live source; bytes that no piece covers stay as they are. For a state
// that `rules` derives, the source holds the derived value too.
void fill_sources(const ir::Schedule& schedule, HostMemory& memory, std::uint64_t seed,
                  const OracleRules& rules = {});

// Compares every piece of every target storage. To be called after the last window.
CheckReport check_targets(const ir::Schedule& schedule, const HostMemory& memory,
                          std::uint64_t seed, const OracleRules& rules = {});

// Compares every piece of every source that is still live with what fill_sources wrote.
CheckReport check_sources(const ir::Schedule& schedule, const HostMemory& memory,
                          std::uint64_t seed, const OracleRules& rules = {});

struct CheckedReplay {
  CheckReport targets;  // over all seeds
  CheckReport sources;
  ReplayReport replay;  // of the last seed

  bool ok() const { return targets.ok() && sources.ok(); }
};

// For each seed: fresh poisoned memory, fill, replay, both checks. Memory: that of the replay and
// no more. Errors as replay.
CheckedReplay replay_checked(const ir::Schedule& schedule, const ReplayOptions& options = {},
                             const OracleRules& rules = {},
                             const std::vector<std::uint64_t>& seeds = {1, 2, 3});

}  // namespace plan
