// The one-line form of a topology.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/base/quantity.h"
#include "libplan/topology/topology.h"

namespace plan {
namespace {

[[noreturn]] void fail(const std::string& message, std::string_view part) {
  throw Error(ErrorCode::Usage, message, "topology part " + json_quote(part));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Runs a parser of base/quantity.h and names the part in its error.
template <class Parse>
std::int64_t quantity(Parse parse, std::string_view text, std::string_view part) {
  try {
    return parse(text);
  } catch (const Error& error) {
    fail(error.message(), part);
  }
}

std::int64_t rate_of(std::string_view text, std::string_view part) {
  const std::int64_t rate = quantity(parse_rate, text, part);
  if (rate < 1 || rate > kMaxBytesPerSecond) {
    fail("expected a rate of 1 B/s to 1000 TB/s, found " + json_quote(text), part);
  }
  return rate;
}

std::int64_t latency_of(std::string_view text, std::string_view part) {
  const std::int64_t latency = quantity(parse_duration_ns, text, part);
  if (latency > kMaxLatencyNs) {
    fail("expected a latency of 0ns to 1000s, found " + json_quote(text), part);
  }
  return latency;
}

// "8" or "8+8+4".
std::vector<std::int64_t> parse_counts(std::string_view text, std::string_view part) {
  std::vector<std::int64_t> counts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('+', at), text.size());
    const std::string_view digits = text.substr(at, end - at);
    const bool number = !digits.empty() && digits.size() <= 9 &&
                        std::all_of(digits.begin(), digits.end(), is_digit);
    const std::int64_t count = number ? std::stoll(std::string(digits)) : 0;
    if (count < 1 || count > kMaxDevices) {
      fail("expected a number from 1 to 1048576, or several joined by \"+\"; found " +
               json_quote(text),
           part);
    }
    counts.push_back(count);
    at = end + 1;
  }
  return counts;
}

struct Parts {
  std::optional<std::vector<std::int64_t>> nodes, gpus, nics;
  LinkPrice nvlink{kDefaultNvlinkBytesPerSecond, kDefaultNvlinkLatencyNs};
  LinkPrice nic{kDefaultNicBytesPerSecond, kDefaultNicLatencyNs};
};

void read_part(Parts& parts, const std::string& key, std::string_view value,
               std::string_view part) {
  if (key == "nodes") {
    parts.nodes = parse_counts(value, part);
  } else if (key == "gpus") {
    parts.gpus = parse_counts(value, part);
  } else if (key == "nics") {
    parts.nics = parse_counts(value, part);
  } else if (key == "nvlink") {
    parts.nvlink.bytes_per_second = rate_of(value, part);
  } else if (key == "nic") {
    parts.nic.bytes_per_second = rate_of(value, part);
  } else if (key == "nvlink_latency") {
    parts.nvlink.latency_ns = latency_of(value, part);
  } else if (key == "nic_latency") {
    parts.nic.latency_ns = latency_of(value, part);
  } else {
    const std::vector<std::string> known{"nodes", "gpus",           "nics",       "nvlink",
                                         "nic",   "nvlink_latency", "nic_latency"};
    const std::string near = nearest_word(key, known);
    fail("unknown key " + json_quote(key) +
             (near.empty() ? "; known are nodes, gpus, nics, nvlink, nic, nvlink_latency, "
                             "nic_latency"
                           : "; the nearest known key is " + json_quote(near)),
         part);
  }
}

Parts split_parts(std::string_view text) {
  Parts parts;
  std::vector<std::string> seen;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) {
      fail("expected key=value, as in nodes=2,gpus=8; found " + json_quote(part), part);
    }
    const std::string key(part.substr(0, equals));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) {
      fail("the key " + json_quote(key) + " is given twice", part);
    }
    seen.push_back(key);
    read_part(parts, key, part.substr(equals + 1), part);
    at = end + 1;
  }
  return parts;
}

// Devices of each node.
std::vector<std::int64_t> node_sizes(const Parts& parts) {
  const bool sizes_in_nodes = parts.nodes && parts.nodes->size() > 1;
  if (sizes_in_nodes) {
    if (parts.gpus) fail("nodes=A+B+... already gives the devices of each node", "gpus");
    return *parts.nodes;
  }
  if (!parts.gpus) fail("expected gpus=N, the devices of each node; found none", "nodes");
  if (parts.gpus->size() > 1) {
    const auto count = static_cast<std::int64_t>(parts.gpus->size());
    if (parts.nodes && parts.nodes->front() != count) {
      fail("gpus lists " + std::to_string(count) + " nodes, nodes says " +
               std::to_string(parts.nodes->front()),
           "gpus");
    }
    return *parts.gpus;
  }
  const std::int64_t count = parts.nodes ? parts.nodes->front() : 1;
  if (checked_mul(count, parts.gpus->front()) > kMaxDevices) {
    fail("expected at most 1048576 devices, found " + std::to_string(count * parts.gpus->front()),
         "nodes");
  }
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), parts.gpus->front());
}

// Either neighbouring devices share a NIC, or each device has several.
std::vector<Nic> spread_nics(const std::vector<DeviceId>& devices, std::int64_t count,
                             const LinkPrice& price) {
  const auto gpus = static_cast<std::int64_t>(devices.size());
  if (count > gpus ? count % gpus != 0 : gpus % count != 0) {
    fail("the NICs of a node must divide its devices or be a multiple of them; found " +
             std::to_string(count) + " NICs for " + std::to_string(gpus) + " devices",
         "nics");
  }
  std::vector<Nic> nics;
  for (std::int64_t i = 0; i < count; ++i) {
    Nic& nic = nics.emplace_back();
    nic.price = price;
    const std::int64_t first = i * gpus / count;
    const std::int64_t shared = std::max<std::int64_t>(gpus / count, 1);
    nic.devices.assign(devices.begin() + first, devices.begin() + first + shared);
  }
  return nics;
}

}  // namespace

Topology parse_topology_shorthand(std::string_view text) {
  const Parts parts = split_parts(text);
  const std::vector<std::int64_t> sizes = node_sizes(parts);
  if (parts.nics && parts.nics->size() > 1 && parts.nics->size() != sizes.size()) {
    fail("nics lists " + std::to_string(parts.nics->size()) + " nodes, there are " +
             std::to_string(sizes.size()),
         "nics");
  }
  Topology topology;
  std::int32_t next = 0;
  std::int64_t next_nic = 0;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    Node& node = topology.nodes.emplace_back();
    node.name = "node" + std::to_string(n);
    node.nvlink = parts.nvlink;
    if (next + sizes[n] > kMaxDevices) fail("expected at most 1048576 devices", "gpus");
    for (std::int64_t i = 0; i < sizes[n]; ++i) node.devices.push_back(DeviceId(next++));
    std::int64_t count = sizes[n];
    if (parts.nics) count = (*parts.nics)[parts.nics->size() > 1 ? n : 0];
    next_nic += count;
    if (next_nic > kMaxDevices) fail("expected at most 1048576 NICs", "nics");
    node.nics = spread_nics(node.devices, count, parts.nic);
  }
  validate(topology);
  return topology;
}

}  // namespace plan
