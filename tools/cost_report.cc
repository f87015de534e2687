#include "tools/cost_report.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "libplan/base/quantity.h"

namespace plan::tools {
namespace {

std::int64_t largest(const std::vector<std::int64_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// Rounded up, so that a bound never reads lower than it is.
std::int64_t us(std::int64_t ns) { return ns / 1000 + (ns % 1000 != 0); }

std::vector<std::pair<std::string, std::int64_t>> rows(const CostReport& report) {
  const Estimate& e = report.estimate;
  const Bounds& b = report.bounds;
  return {{"total_bytes", e.total_bytes},
          {"total_bytes_min", b.received_bytes},
          {"inter_node_bytes", e.inter_node_bytes},
          {"inter_node_bytes_min", b.inter_node_bytes},
          {"intra_node_bytes", e.intra_node_bytes},
          {"local_bytes", e.local_bytes},
          {"scalar_bytes", e.scalar_bytes},
          {"padding_bytes", e.padding_bytes},
          {"max_sent_bytes", e.max_sent_bytes},
          {"max_received_bytes_min", b.max_received_bytes},
          {"makespan_us", us(e.makespan_ns)},
          {"nic_bound_us", us(b.nic_ns)},
          {"one_hop_nic_bound_us", us(b.one_hop_nic_ns)},
          {"makespan_bound_us", us(b.makespan_ns)},
          {"peak_bytes_max", largest(e.peak_bytes)},
          {"peak_bytes_bound", b.peak_bytes},
          {"staging_bytes_max", largest(e.staging_bytes)},
          {"windows", e.windows},
          {"messages", e.messages},
          {"planning_us", report.planning_us}};
}

}  // namespace

CostReport cost_report(const Request& request, const Resolved& resolved,
                       const ir::Schedule& schedule) {
  const Demand demand = build_demand(resolved.source, resolved.target, request.topology);
  return {estimate(schedule, request.topology),
          bounds(demand, resolved.source, resolved.target, request.topology), 0};
}

std::string to_json(const CostReport& report) {
  std::string text = "{";
  for (const auto& [key, value] : rows(report)) {
    text += (text.size() > 1 ? ",\n \"" : "\n \"") + key + "\": " + std::to_string(value);
  }
  return text + "\n}\n";
}

std::string to_table(const CostReport& report) {
  std::string text;
  for (const auto& [key, value] : rows(report)) {
    const std::string number = std::to_string(value);
    text += key + std::string(key.size() < 24 ? 24 - key.size() : 1, ' ') +
            std::string(number.size() < 18 ? 18 - number.size() : 0, ' ') + number;
    if (key.find("bytes") != std::string::npos && value >= 1024)
      text += "  (" + bytes_text(value) + ")";
    text += "\n";
  }
  return text;
}

}  // namespace plan::tools
