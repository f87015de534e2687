#include "libplan/schedule/validate.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/schedule/validate_program.h"

namespace plan {
namespace {

[[noreturn]] void fail(const std::string& place, const std::string& required,
                       const std::string& found) {
  throw Error(ErrorCode::BadInput, "expected " + required + ", found " + found, place);
}

void check_size(std::size_t size, std::int64_t most, const std::string& what) {
  if (size > static_cast<std::size_t>(most)) {
    fail("schedule", "at most " + std::to_string(most) + " " + what, std::to_string(size));
  }
}

void check_name(const std::string& name, const std::string& place) {
  if (name.size() > static_cast<std::size_t>(kMaxNameBytes)) {
    fail(place, "a name of at most " + std::to_string(kMaxNameBytes) + " bytes",
         std::to_string(name.size()) + " bytes");
  }
  if (!is_utf8(name)) fail(place, "a name in UTF-8", "other bytes");
}

void check_digest(const std::string& digest, const std::string& place) {
  const bool hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (digest.empty() || (digest.size() == 64 && hex)) return;
  fail(place, "64 lower-case hex digits or nothing", json_quote(digest.substr(0, 80)));
}

void check_head(const ir::Schedule& schedule) {
  check_size(schedule.ranks.size(), kMaxRanks, "ranks");
  check_size(schedule.tensors.size(), kMaxEntries, "tensors");
  check_size(schedule.states.size(), kMaxEntries, "states");
  check_size(schedule.request.size(), kMaxEntries, "bytes of request");
  if (!is_utf8(schedule.request)) fail("request", "JSON text in UTF-8", "other bytes");
  check_digest(schedule.digests.model, "digests, model");
  check_digest(schedule.digests.source_layout, "digests, source_layout");
  check_digest(schedule.digests.target_layout, "digests, target_layout");
  check_digest(schedule.digests.topology, "digests, topology");
  check_name(schedule.algorithm, "algorithm");
  if (schedule.window_ops < 1 || schedule.window_ops > kMaxWindowOps) {
    fail("window_ops", "1 to " + std::to_string(kMaxWindowOps),
         std::to_string(schedule.window_ops));
  }
  if (schedule.num_windows < 0) {
    fail("num_windows", "a number >= 0", std::to_string(schedule.num_windows));
  }
}

void check_ranks(const ir::Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.ranks.size(); ++i) {
    const ir::RankEntry& entry = schedule.ranks[i];
    const std::string place = "ranks, entry " + std::to_string(i);
    if (entry.rank.value != static_cast<std::int32_t>(i)) {
      fail(place, "rank " + std::to_string(i), "rank " + std::to_string(entry.rank.value));
    }
    const std::int32_t before = i == 0 ? -1 : schedule.ranks[i - 1].worker.value;
    if (entry.worker.value <= before) {
      fail(place, "a worker above " + std::to_string(before),
           "worker " + std::to_string(entry.worker.value));
    }
    if (!entry.node.valid()) {
      fail(place, "a node >= 0", "node " + std::to_string(entry.node.value));
    }
    if (entry.rollback_until_window < -1 || entry.rollback_until_window >= schedule.num_windows) {
      fail(place,
           "rollback_until_window -1, or below the " + std::to_string(schedule.num_windows) +
               " windows",
           std::to_string(entry.rollback_until_window));
    }
  }
}

void check_tensors(const ir::Schedule& schedule) {
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    const ir::TensorEntry& tensor = schedule.tensors[i];
    const std::string place = "tensors, entry " + std::to_string(i);
    check_name(tensor.name, place);
    const Dims& shape = tensor.shape;
    if (shape.count < 0 || shape.count > kMaxDims) {
      fail(place, "0 to " + std::to_string(kMaxDims) + " dimensions", std::to_string(shape.count));
    }
    for (int axis = 0; axis < kMaxDims; ++axis) {
      if (axis < shape.count ? shape[axis] >= 0 : shape[axis] == 0) continue;
      fail(place, axis < shape.count ? "an extent >= 0" : "0 beyond the last dimension",
           std::to_string(shape[axis]) + " as dimension " + std::to_string(axis));
    }
  }
}

void check_states(const ir::Schedule& schedule) {
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < schedule.states.size(); ++i) {
    const std::string place = "states, entry " + std::to_string(i);
    check_name(schedule.states[i], place);
    if (seen.insert(schedule.states[i]).second) continue;
    fail(place, "a name that no other state has", json_quote(schedule.states[i]));
  }
}

// Calls visit(program, window, message) for each send or each receive, in order.
template <class Visit>
void for_each_message(const ir::Schedule& schedule, bool sends, Visit visit) {
  for (const ir::Program& program : schedule.programs) {
    for (const ir::Window& window : program.windows) {
      if (sends) {
        for (const ir::Send& send : view(program.sends, window.sends)) {
          visit(program, window, send.message);
        }
      } else {
        for (const ir::Receive& receive : view(program.receives, window.receives)) {
          visit(program, window, receive.message);
        }
      }
    }
  }
}

void check_messages_unique(const ir::Schedule& schedule, bool sends) {
  std::vector<std::int64_t> messages;
  for_each_message(schedule, sends,
                   [&](const ir::Program&, const ir::Window&, std::int64_t message) {
                     messages.push_back(message);
                   });
  std::sort(messages.begin(), messages.end());
  const auto twice = std::adjacent_find(messages.begin(), messages.end());
  if (twice == messages.end()) return;
  std::string places;
  for_each_message(schedule, sends,
                   [&](const ir::Program& program, const ir::Window& window, std::int64_t message) {
                     if (message != *twice || places.size() > 200) return;
                     places += (places.empty() ? "rank " : "; rank ") +
                               std::to_string(program.rank.value) + ", window " +
                               std::to_string(window.number);
                   });
  fail(places, std::string("each message number once among all ") + (sends ? "sends" : "receives"),
       "message " + std::to_string(*twice) + " more than once");
}

}  // namespace

void validate(const ir::Schedule& schedule) {
  check_head(schedule);
  check_ranks(schedule);
  check_tensors(schedule);
  check_states(schedule);
  check_size(schedule.programs.size(), static_cast<std::int64_t>(schedule.ranks.size()),
             "programs, one per rank");
  std::int32_t before = -1;
  for (const ir::Program& program : schedule.programs) {
    const std::int32_t rank = program.rank.value;
    if (rank <= before || static_cast<std::size_t>(rank) >= schedule.ranks.size()) {
      fail("programs",
           "a rank above " + std::to_string(before) + " and below " +
               std::to_string(schedule.ranks.size()),
           "rank " + std::to_string(rank));
    }
    before = rank;
    validate_program(schedule, program);
  }
  check_messages_unique(schedule, true);
  check_messages_unique(schedule, false);
}

}  // namespace plan
