// The file form of a topology: schemas/topology.schema.json.
#include <algorithm>
#include <map>
#include <string>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/topology/topology.h"

namespace plan {
namespace {

constexpr std::string_view kFormat = "libplan-topology";
constexpr std::int32_t kVersion = 1;

using Links = std::map<std::string, LinkPrice>;

Links read_links(const JsonCursor& list) {
  Links links;
  for (const JsonCursor& link : list.elements()) {
    link.expect_object({"name", "bytes_per_second", "latency_ns"});
    const std::string& name = link.at("name").as_string();
    const LinkPrice price{link.at("bytes_per_second").as_int64(1, kMaxBytesPerSecond),
                          link.at("latency_ns").as_int64(0, kMaxLatencyNs)};
    if (!links.emplace(name, price).second) {
      link.at("name").fail("the link " + json_quote(name) + " is given twice");
    }
  }
  return links;
}

LinkPrice find_link(const Links& links, const JsonCursor& name) {
  const auto it = links.find(name.as_string());
  if (it != links.end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [link, price] : links) known.push_back(link);
  const std::string near = nearest_word(name.as_string(), known);
  name.fail("no link is called " + json_quote(name.as_string()) +
            (near.empty() ? "" : "; the nearest is " + json_quote(near)));
}

std::vector<DeviceId> read_devices(const JsonCursor& list) {
  std::vector<DeviceId> devices;
  for (const JsonCursor& device : list.elements()) {
    devices.push_back(DeviceId(device.as_int32(0, INT32_MAX)));
  }
  std::sort(devices.begin(), devices.end());
  const auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice != devices.end()) {
    list.fail("device " + std::to_string(twice->value) + " is given twice");
  }
  return devices;
}

Node read_node(const JsonCursor& cursor, std::size_t index, const Links& links) {
  cursor.expect_object({"name", "devices", "nvlink", "nics"});
  Node node;
  const std::optional<JsonCursor> name = cursor.find("name");
  node.name = name ? name->as_string() : "node" + std::to_string(index);
  node.devices = read_devices(cursor.at("devices"));
  if (node.devices.empty()) cursor.at("devices").fail("expected at least one device");
  node.nvlink = find_link(links, cursor.at("nvlink"));
  for (const JsonCursor& entry : cursor.at("nics").elements()) {
    entry.expect_object({"devices", "link"});
    Nic nic{read_devices(entry.at("devices")), find_link(links, entry.at("link"))};
    if (nic.devices.empty()) entry.at("devices").fail("expected at least one device");
    for (const DeviceId device : nic.devices) {
      if (std::binary_search(node.devices.begin(), node.devices.end(), device)) continue;
      entry.at("devices").fail("a NIC's devices belong to its node, found device " +
                               std::to_string(device.value));
    }
    node.nics.push_back(std::move(nic));
  }
  return node;
}

std::string devices_json(const std::vector<DeviceId>& devices) {
  std::string text = "[";
  for (std::size_t i = 0; i < devices.size(); ++i) {
    text += (i == 0 ? "" : ",") + std::to_string(devices[i].value);
  }
  return text + "]";
}

// Names the classes of equal prices link0, link1, ... in the order of their first use.
class LinkNames {
 public:
  std::string name(const LinkPrice& price) {
    const auto [it, inserted] =
        index_.try_emplace({price.bytes_per_second, price.latency_ns}, index_.size());
    if (inserted) prices_.push_back(price);
    return "link" + std::to_string(it->second);
  }
  std::string json() const {
    std::string text;
    for (std::size_t i = 0; i < prices_.size(); ++i) {
      text += i == 0 ? "" : ",\n";
      text += "  {\"name\": \"link" + std::to_string(i) +
              "\", \"bytes_per_second\": " + std::to_string(prices_[i].bytes_per_second) +
              ", \"latency_ns\": " + std::to_string(prices_[i].latency_ns) + "}";
    }
    return text;
  }

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> index_;
  std::vector<LinkPrice> prices_;
};

std::string node_json(const Node& node, LinkNames& links) {
  std::string text = "  {\"name\": " + json_quote(node.name) +
                     ", \"devices\": " + devices_json(node.devices) + ", \"nvlink\": \"" +
                     links.name(node.nvlink) + "\", \"nics\": [";
  for (std::size_t i = 0; i < node.nics.size(); ++i) {
    text += i == 0 ? "" : ", ";
    text += "{\"devices\": " + devices_json(node.nics[i].devices) + ", \"link\": \"" +
            links.name(node.nics[i].price) + "\"}";
  }
  return text + "]}";
}

}  // namespace

Topology parse_topology_json(std::string_view json, const std::string& source_name) {
  const JsonDocument document = parse_json(json, source_name);
  const JsonCursor root = JsonCursor::root(document);
  root.expect_object({"format", "version", "links", "nodes", "dead_devices"});
  if (root.at("format").as_string() != kFormat) {
    root.at("format").fail("expected " + json_quote(kFormat) + ", found " +
                           json_quote(root.at("format").as_string()));
  }
  const std::int64_t version = root.at("version").as_int64(INT64_MIN, INT64_MAX);
  if (version != kVersion) {
    root.at("version").fail("expected version 1, found " + std::to_string(version),
                            ErrorCode::Unsupported);
  }
  const Links links = read_links(root.at("links"));
  Topology topology;
  const JsonCursor nodes = root.at("nodes");
  for (const JsonCursor& node : nodes.elements()) {
    topology.nodes.push_back(read_node(node, topology.nodes.size(), links));
  }
  if (topology.nodes.empty()) nodes.fail("expected at least one node");
  if (const std::optional<JsonCursor> dead = root.find("dead_devices")) {
    topology.dead = read_devices(*dead);
  }
  try {
    validate(topology);
  } catch (const Error& error) {
    nodes.fail((error.place().empty() ? "" : error.place() + ": ") + error.message());
  }
  return topology;
}

std::string to_json(const Topology& topology) {
  LinkNames links;
  std::string nodes;
  for (std::size_t i = 0; i < topology.nodes.size(); ++i) {
    nodes += (i == 0 ? "" : ",\n") + node_json(topology.nodes[i], links);
  }
  std::string text = "{\n \"format\": " + json_quote(kFormat) +
                     ",\n \"version\": " + std::to_string(kVersion) + ",\n \"links\": [\n" +
                     links.json() + "\n ],\n \"nodes\": [\n" + nodes + "\n ]";
  if (!topology.dead.empty()) text += ",\n \"dead_devices\": " + devices_json(topology.dead);
  return text + "\n}\n";
}

}  // namespace plan
