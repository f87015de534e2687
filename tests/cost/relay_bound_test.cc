#include "libplan/cost/relay_bound.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::int64_t kGB = 1'000'000'000;

TEST_CASE("worked examples") {
  // One holder, one needer: 25 GB at 25 GB/s.
  CHECK(least_exit_ns({{{0}, {1}, 25 * kGB}}, {25 * kGB, 25 * kGB}, false) == kGB);
  CHECK(least_entry_ns({{{0}, {1}, 25 * kGB}}, {25 * kGB, 25 * kGB}) == kGB);
  // Two holders share the load of one class.
  CHECK(least_exit_ns({{{0, 1}, {2}, 50 * kGB}}, {25 * kGB, 25 * kGB, 25 * kGB}, false) == kGB);
  // One copy to four: without relays four times; with relays the holder sends once, the four
  // needers the other three copies between them.
  const std::vector<std::int64_t> five(5, 25 * kGB);
  CHECK(least_exit_ns({{{0}, {1, 2, 3, 4}, 25 * kGB}}, five, false) == 4 * kGB);
  CHECK(least_exit_ns({{{0}, {1, 2, 3, 4}, 25 * kGB}}, five, true) == kGB);
  CHECK(least_exit_ns({}, five, true) == 0);
  CHECK_THROWS_AS(transfer_ns(1, 0), Error);
}

// The cut bound by enumeration: for every set of vertices, what must leave through that set alone,
// with the classes whose holders (and needers, or not their relayed copies) all lie in it.
double exit_by_cuts(const std::vector<FlowClass>& classes, const std::vector<std::int64_t>& rates,
                    bool relays) {
  double longest = 0;
  for (std::uint32_t set = 1; set < (1U << rates.size()); ++set) {
    const auto inside = [&](const std::vector<std::int32_t>& vertices) {
      return std::all_of(vertices.begin(), vertices.end(),
                         [&](std::int32_t v) { return (set >> v & 1U) != 0; });
    };
    double bytes = 0;
    double rate = 0;
    for (std::size_t v = 0; v < rates.size(); ++v) {
      if ((set >> v & 1U) != 0) rate += static_cast<double>(rates[v]);
    }
    for (const FlowClass& flow : classes) {
      if (!inside(flow.holders)) continue;
      const auto copies = static_cast<double>(flow.needers.size());
      const bool all_copies = !relays || inside(flow.needers);
      bytes += static_cast<double>(flow.bytes) * (all_copies ? copies : 1);
    }
    longest = std::max(longest, bytes / rate);
  }
  return longest * 1e9;
}

TEST_CASE("the flow bound equals the largest cut on random instances") {
  std::mt19937_64 random(5);
  for (int round = 0; round < 400; ++round) {
    const std::size_t vertices = 2 + random() % 4;
    std::vector<std::int64_t> rates;
    for (std::size_t v = 0; v < vertices; ++v)
      rates.push_back(static_cast<std::int64_t>(1 + random() % 9) * kGB);
    std::vector<FlowClass> classes;
    for (std::size_t c = 0; c < 1 + random() % 5; ++c) {
      FlowClass flow;
      for (std::size_t v = 0; v < vertices; ++v) {
        const auto role = random() % 3;
        if (role == 0) flow.holders.push_back(static_cast<std::int32_t>(v));
        if (role == 1) flow.needers.push_back(static_cast<std::int32_t>(v));
      }
      flow.bytes = static_cast<std::int64_t>(1 + random() % 50) * kGB;
      if (!flow.holders.empty() && !flow.needers.empty()) classes.push_back(flow);
    }
    if (classes.empty()) continue;
    for (const bool relays : {false, true}) {
      CAPTURE(round, relays);
      const auto found = static_cast<double>(least_exit_ns(classes, rates, relays));
      const double expected = exit_by_cuts(classes, rates, relays);
      REQUIRE(found >= expected - 2);
      REQUIRE(found <= expected + 2);
    }
  }
}

}  // namespace
}  // namespace plan
