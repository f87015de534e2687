#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "libplan/base/error.h"
#include "libplan/optimize/optimize.h"

namespace plan {
namespace {

// All hops of one depth between one pair become one message.
struct Message {
  std::int32_t depth = 0;
  std::int64_t rotation = 0;  // (receiver - sender) modulo the number of devices
  std::size_t sender = 0;     // index among the devices that take part
  std::size_t receiver = 0;
  friend auto operator<=>(const Message&, const Message&) = default;
};

// How many messages each device has in each round.
class Occupancy {
 public:
  Occupancy(std::size_t devices, std::int32_t limit) : used_(devices), limit_(limit) {}

  std::int32_t first_fit(std::size_t a, std::size_t b, std::int32_t from) {
    std::int32_t round = from;
    while (used(a, round) >= limit_ || used(b, round) >= limit_) ++round;
    ++used(a, round);
    ++used(b, round);
    return round;
  }

 private:
  std::int32_t& used(std::size_t device, std::int32_t round) {
    std::vector<std::int32_t>& rounds = used_[device];
    if (rounds.size() <= static_cast<std::size_t>(round))
      rounds.resize(static_cast<std::size_t>(round) + 1);
    return rounds[static_cast<std::size_t>(round)];
  }

  std::vector<std::vector<std::int32_t>> used_;
  std::int32_t limit_;
};

std::vector<DeviceId> participants(const RoutedDemand& routed) {
  std::set<DeviceId> devices;
  for (const Hop& hop : routed.hops) {
    devices.insert(hop.sender);
    devices.insert(hop.receiver);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace

RoutedDemand assign_rounds(RoutedDemand routed, std::int32_t window_ops) {
  PLAN_CHECK(window_ops >= 2);
  const std::vector<DeviceId> devices = participants(routed);
  const auto index_of = [&](DeviceId device) {
    return static_cast<std::size_t>(std::lower_bound(devices.begin(), devices.end(), device) -
                                    devices.begin());
  };
  const auto count = static_cast<std::int64_t>(devices.size());

  std::vector<std::int32_t> depth(routed.hops.size(), 0);
  std::vector<Message> message_of_hop(routed.hops.size());
  std::map<Message, std::int32_t> round_of;
  for (std::size_t h = 0; h < routed.hops.size(); ++h) {
    const Hop& hop = routed.hops[h];
    if (hop.parent >= 0) depth[h] = depth[static_cast<std::size_t>(hop.parent)] + 1;
    const std::size_t sender = index_of(hop.sender);
    const std::size_t receiver = index_of(hop.receiver);
    const std::int64_t rotation =
        (static_cast<std::int64_t>(receiver) - static_cast<std::int64_t>(sender) + count) % count;
    message_of_hop[h] = {depth[h], rotation, sender, receiver};
    round_of[message_of_hop[h]] = 0;
  }

  // A pair has one message in a round, so equal pairs of different depths take different rounds;
  // all of one depth come after all of the depth before.
  Occupancy occupancy(devices.size(), window_ops);
  std::int32_t first_round = 0;
  std::int32_t last_round = -1;
  std::int32_t current_depth = 0;
  for (auto& [message, round] : round_of) {
    if (message.depth != current_depth) {
      current_depth = message.depth;
      first_round = last_round + 1;
    }
    round = occupancy.first_fit(message.sender, message.receiver, first_round);
    last_round = std::max(last_round, round);
  }
  for (std::size_t h = 0; h < routed.hops.size(); ++h) {
    routed.hops[h].round = round_of.at(message_of_hop[h]);
  }
  return routed;
}

}  // namespace plan
