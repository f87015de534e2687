#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/range/iterator_range.hpp>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libplan/verify/messages.h"

namespace plan::verify {
namespace {

using Graph = boost::compressed_sparse_row_graph<boost::directedS>;

// Two vertices for each window: it has started, it is done. An edge: waits for.
class WaitGraph {
 public:
  WaitGraph(const ir::Schedule& schedule, const std::vector<Match>& matches) : schedule_(schedule) {
    for (const ir::Program& program : schedule.programs) {
      first_window_.push_back(num_windows_);
      num_windows_ += program.windows.size();
    }
    for (std::size_t p = 0; p < schedule.programs.size(); ++p) add_program(p);
    for (const Match& match : matches) {
      edges_.emplace_back(done(match.send), started(match.receive));
      edges_.emplace_back(done(match.receive), started(match.send));
    }
    graph_ =
        Graph(boost::edges_are_unsorted_multi_pass, edges_.begin(), edges_.end(), 2 * num_windows_);
  }

  void report_cycles(Findings& findings) const {
    std::vector<std::size_t> component(boost::num_vertices(graph_));
    const std::size_t count = boost::strong_components(
        graph_,
        boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, graph_)));
    std::vector<std::size_t> size(count, 0);
    for (const std::size_t c : component) ++size[c];
    std::vector<bool> reported(count, false);
    for (std::size_t vertex = 0; vertex < component.size(); ++vertex) {
      const std::size_t c = component[vertex];
      if (size[c] == 1 || reported[c]) continue;
      reported[c] = true;
      report(cycle_through(vertex, component), findings);
    }
  }

 private:
  std::size_t started(const Match::End& end) const {
    return 2 * (first_window_[static_cast<std::size_t>(end.program)] +
                static_cast<std::size_t>(end.window));
  }
  std::size_t done(const Match::End& end) const { return started(end) + 1; }

  void add_program(std::size_t p) {
    const ir::Program& program = schedule_.programs[p];
    const std::size_t base = 2 * first_window_[p];
    for (std::size_t w = 0; w < program.windows.size(); ++w) {
      const ir::Window& window = program.windows[w];
      const std::size_t start = base + 2 * w;
      edges_.emplace_back(start + 1, start);
      if (w > 0) edges_.emplace_back(start, start - 1);
      for (const std::int32_t number : ir::view(program.window_numbers, window.depends_on)) {
        // A window without entries is done when the last window before it is.
        const auto after = std::upper_bound(
            program.windows.begin(), program.windows.end(), number,
            [](std::int32_t n, const ir::Window& other) { return n < other.number; });
        const auto position = static_cast<std::size_t>(after - program.windows.begin());
        if (position > 0) edges_.emplace_back(start, base + 2 * (position - 1) + 1);
      }
    }
  }

  // A shortest cycle through the vertex inside its strong component.
  std::vector<std::size_t> cycle_through(std::size_t vertex,
                                         const std::vector<std::size_t>& component) const {
    std::map<std::size_t, std::size_t> parent;
    std::deque<std::size_t> queue = {vertex};
    while (!queue.empty()) {
      const std::size_t at = queue.front();
      queue.pop_front();
      for (const auto edge : boost::make_iterator_range(boost::out_edges(at, graph_))) {
        const std::size_t next = boost::target(edge, graph_);
        if (next == vertex) {
          std::vector<std::size_t> cycle = {at};
          while (cycle.back() != vertex) cycle.push_back(parent.at(cycle.back()));
          std::reverse(cycle.begin(), cycle.end());
          return cycle;
        }
        if (component[next] != component[vertex]) continue;
        if (parent.emplace(next, at).second) queue.push_back(next);
      }
    }
    return {vertex};
  }

  struct Place {
    RankId rank;
    std::int32_t window = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  Place place_of(std::size_t vertex) const {
    const std::size_t window = vertex / 2;
    const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), window);
    const auto p = static_cast<std::size_t>(after - first_window_.begin()) - 1;
    const ir::Program& program = schedule_.programs[p];
    return {program.rank, program.windows[window - first_window_[p]].number};
  }

  void report(const std::vector<std::size_t>& cycle, Findings& findings) const {
    std::vector<Place> places;
    for (const std::size_t vertex : cycle) {
      const Place place = place_of(vertex);
      if (places.empty() || places.back() != place) places.push_back(place);
    }
    if (places.size() > 1 && places.back() == places.front()) places.pop_back();
    Diagnostic diagnostic;
    diagnostic.rule = "V210";
    diagnostic.rank = places.front().rank;
    diagnostic.window = places.front().window;
    places.push_back(places.front());
    for (const Place& place : places) {
      if (!diagnostic.message.empty()) diagnostic.message += " waits for ";
      diagnostic.message +=
          "rank " + std::to_string(place.rank.value) + " window " + std::to_string(place.window);
    }
    findings.add(std::move(diagnostic));
  }

  const ir::Schedule& schedule_;
  std::vector<std::size_t> first_window_;  // of each program
  std::size_t num_windows_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> edges_;
  Graph graph_;
};

}  // namespace

void check_progress(const ir::Schedule& schedule, const std::vector<Match>& matches,
                    Findings& findings) {
  WaitGraph(schedule, matches).report_cycles(findings);
}

}  // namespace plan::verify
