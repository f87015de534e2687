// S7xx and S803: what a switch between two entries costs or loses. One finding per rule and target;
// the sources are listed in it.
#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/ids.h"
#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/rank_grid.h"
#include "libplan/strategy/rank_order.h"
#include "libplan/strategy/stage_memory.h"

namespace plan::check {
namespace {

// A list this long is a mistake or an attack: all pairs of more entries would take minutes.
constexpr std::size_t kMostEntries = 2'000;
constexpr std::size_t kMostListed = 8;
constexpr std::int64_t kMostMemorySteps = std::int64_t{1} << 24;

// Devices [first, end), ascending and apart.
using DeviceRanges = std::vector<Interval>;

DeviceRanges devices_of(const Strategy& s) {
  if (s.ranks.empty()) return {{0, s.world_size}};
  std::vector<DeviceId> sorted = s.ranks;
  std::sort(sorted.begin(), sorted.end());
  DeviceRanges ranges;
  for (const DeviceId device : sorted) {
    if (!ranges.empty() && ranges.back().end == device.value) {
      ++ranges.back().end;
    } else {
      ranges.push_back({device.value, std::int64_t{device.value} + 1});
    }
  }
  return ranges;
}

// What is in `a` and not in `b`, as "4-7, 9"; empty if nothing is.
std::string difference_text(const DeviceRanges& a, const DeviceRanges& b) {
  std::string text;
  std::size_t listed = 0;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    if (listed++ >= kMostListed) return;
    text += (text.empty() ? "" : ", ") + num(begin) + (end - begin > 1 ? "-" + num(end - 1) : "");
  };
  for (const Interval& range : a) {
    std::int64_t begin = range.begin;
    for (const Interval& other : b) {
      if (other.end <= begin || other.begin >= range.end) continue;
      add(begin, other.begin);
      begin = other.end;
    }
    add(begin, range.end);
  }
  return text + (listed > kMostListed ? ", ..." : "");
}

// An entry without errors, and what the rules compare.
struct Side {
  Entry* entry = nullptr;
  std::int64_t padded_vocab = 0;
  std::vector<Token> order;  // tokens of size > 1 in one of the grids
  DeviceRanges devices;
  std::optional<std::vector<StageBytes>> memory;
  std::int32_t stage_stride = 1;  // ranks of neighbouring stages are this far apart
};

const Strategy& strategy_of(const Side& side) { return side.entry->reading.strategy; }

// Tokens that have a size in both grids must come in the same order.
bool orders_differ(const Side& a, const Side& b) {
  const auto common = [](const std::vector<Token>& of, const std::vector<Token>& with) {
    std::vector<Token> tokens;
    for (const Token token : of) {
      if (std::find(with.begin(), with.end(), token) != with.end()) tokens.push_back(token);
    }
    return tokens;
  };
  return common(a.order, b.order) != common(b.order, a.order);
}

class SwitchChecker {
 public:
  SwitchChecker(std::vector<Entry>& entries, const ModelFacts& facts, const Options& options,
                std::vector<Diagnostic>& findings)
      : facts_(facts), options_(options), findings_(findings) {
    for (Entry& entry : entries) {
      const bool mesh = entry.reading.given.contains("mesh");
      if (!entry.checkable || entry.has_error || mesh || !entry.rank_rules_ok) continue;
      if (sides_.size() == kMostEntries) {
        too_many_ = true;
        break;
      }
      sides_.push_back(make_side(entry));
    }
  }

  void run() {
    for (const Side& target : sides_) {
      EntryChecker c(*target.entry, facts_, options_, findings_);
      check_target(c, target);
    }
    if (too_many_) {
      report_limit("switches are checked between the first " +
                   num(static_cast<std::int64_t>(kMostEntries)) + " entries only");
    }
    if (memory_steps_ > kMostMemorySteps) {
      report_limit("the memory of the first switches is checked only, the list has too many");
    }
  }

 private:
  Side make_side(Entry& entry) const {
    EntryChecker c(entry, facts_, options_, findings_);
    Side side;
    side.entry = &entry;
    if (facts_.vocab > 0) side.padded_vocab = ceil_to(facts_.vocab, facts_.vocab_divisor * c.tp());
    const GridSizes dense = dense_sizes(c.s);
    const GridSizes expert = expert_sizes(c.s);
    for (const Token token : resolve_order(c.s, c.version()).tokens) {
      const auto at = static_cast<std::size_t>(token);
      if (token == Token::Pp) side.stage_stride = stride_so_far(side.order, dense);
      if (dense[at] > 1 || expert[at] > 1) side.order.push_back(token);
    }
    side.devices = devices_of(c.s);
    if (options_.memory_limit && facts_.model) {
      side.memory = stage_bytes(*facts_.model, c.s, c.version(), buffer_options(c.s, options_));
    }
    return side;
  }

  static std::int32_t stride_so_far(const std::vector<Token>& tokens, const GridSizes& sizes) {
    std::int64_t stride = 1;
    for (const Token token : tokens) stride *= sizes[static_cast<std::size_t>(token)];
    return static_cast<std::int32_t>(stride);
  }

  void report_limit(std::string message) {
    Diagnostic found;
    found.rule = "S122";
    found.severity = Severity::Note;
    found.message = std::move(message);
    findings_.push_back(std::move(found));
  }

  // "dp8, tp4 and 3 more": the sources that `applies` to; empty if there are none.
  std::string sources(const Side& target, const std::function<bool(const Side&)>& applies) const {
    std::string text;
    std::size_t count = 0;
    for (const Side& source : sides_) {
      if (&source == &target || !applies(source)) continue;
      if (++count <= kMostListed) text += (count == 1 ? "" : ", ") + entry_title(*source.entry);
    }
    if (count > kMostListed) {
      text += " and " + num(static_cast<std::int64_t>(count - kMostListed)) + " more";
    }
    return text;
  }

  void check_target(EntryChecker& c, const Side& target) {
    check_vocab(c, target);
    check_optimizer_kind(c, target);
    check_copies(c, target);
    check_orders(c, target);
    check_batch(c);
    check_lost(c, target);
    check_expert_optimizer(c, target);
    check_tied(c, target);
    check_world(c, target);
    check_switch_memory(c, target);
    if (options_.compat_elastic) check_elastic(c, target);
  }

  // S701: one part per padding of the sources.
  void check_vocab(EntryChecker& c, const Side& target) {
    std::set<std::int64_t> paddings;
    for (const Side& source : sides_) paddings.insert(source.padded_vocab);
    std::string message;
    std::size_t listed = 0;
    for (const std::int64_t padding : paddings) {
      if (padding == target.padded_vocab || ++listed > kMostListed) continue;
      message += (message.empty() ? "padded vocab " : "; ") + num(padding) + " → " +
                 num(target.padded_vocab) + " from " +
                 sources(target, [&](const Side& s) { return s.padded_vocab == padding; });
    }
    if (message.empty()) return;
    c.note("S701", kAll, c.kTp,
           message + ": true rows move, pad rows are filled (Megatron's refit refuses this)");
  }

  // S702.
  void check_optimizer_kind(EntryChecker& c, const Side& target) {
    const bool own = c.s.use_distributed_optimizer;
    const std::string from = sources(target, [&](const Side& source) {
      return strategy_of(source).use_distributed_optimizer != own;
    });
    if (from.empty()) return;
    c.note("S702", kAll, c.kDistributed,
           std::string(own ? "whole-tensor → flat-sharded" : "flat-sharded → whole-tensor") +
               " optimizer state from " + from);
  }

  // S703.
  void check_copies(EntryChecker& c, const Side& target) {
    std::int64_t most = 0;
    const std::string from = sources(target, [&](const Side& source) {
      const std::int64_t k = strategy_of(source).num_distributed_optimizer_instances;
      if (k > c.instances()) most = std::max(most, k);
      return k > c.instances();
    });
    if (from.empty()) return;
    c.note("S703", kAll, c.kInstances,
           "optimizer copies " + num(most) + " → " + num(c.instances()) + " from " + from +
               (c.instances() == 1 ? ": a lost rank is a lost shard" : "") +
               (c.version() == MegatronVersion::V011 ? " (experts have one copy in 0.11)" : ""));
  }

  // S704.
  void check_orders(EntryChecker& c, const Side& target) {
    const std::string from =
        sources(target, [&](const Side& source) { return orders_differ(source, target); });
    if (from.empty()) return;
    c.note("S704", kAll, c.kOrder,
           "another order than " + from + ": ranks mean other coordinates, nearly all moves",
           "try --relabel");
  }

  // S705.
  void check_batch(EntryChecker& c) {
    if (!options_.global_batch_size) return;
    const std::int64_t step = saturating_product({c.dp(), options_.micro_batch_size});
    if (*options_.global_batch_size % step == 0) return;
    c.error("S705", kAll, "",
            "dp·micro = " + num(c.dp()) + "·" + num(options_.micro_batch_size) + " = " + num(step) +
                " must divide the global batch size, found " + num(*options_.global_batch_size),
            "choose another dp or batch size");
  }

  // S706.
  void check_lost(EntryChecker& c, const Side& target) {
    if (options_.dead_ranks.empty() || !options_.lost_state) return;
    std::string first;
    const std::string from = sources(target, [&](const Side& source) {
      const std::optional<std::string> lost = options_.lost_state(strategy_of(source), c.s);
      if (lost && first.empty()) first = *lost;
      return lost.has_value();
    });
    if (from.empty()) return;
    c.error("S706", kAll, "",
            "from " + from + " state is lost, expected a living holder of everything: " + first,
            "give a checkpoint as one more holder, or keep more optimizer instances");
  }

  // S707.
  void check_expert_optimizer(EntryChecker& c, const Side& target) {
    if (facts_.experts < 1) return;
    const std::string from = sources(target, [&](const Side& source) {
      return (strategy_of(source).expert_model_parallel_size == 1) != (c.ep() == 1);
    });
    if (from.empty()) return;
    c.note("S707", kOlder, c.kEp,
           std::string(c.ep() == 1 ? "two optimizers (dense, expert) become one"
                                   : "one optimizer becomes two (dense, expert); its step goes to "
                                     "both") +
               " from " + from);
  }

  // S708.
  void check_tied(EntryChecker& c, const Side& target) {
    if (!facts_.tied_embeddings) return;
    const std::string from = sources(target, [&](const Side& source) {
      return (strategy_of(source).pipeline_model_parallel_size == 1) != (c.pp() == 1);
    });
    if (from.empty()) return;
    c.note("S708", kAll, c.kPp,
           std::string(c.pp() == 1 ? "two copies of the tied embedding become one"
                                   : "one tied embedding becomes two copies (first and last "
                                     "stage)") +
               " from " + from);
  }

  // S709.
  void check_world(EntryChecker& c, const Side& target) {
    std::string message;
    const Side* first = nullptr;
    const std::string from = sources(target, [&](const Side& source) {
      const bool differs = strategy_of(source).world_size != c.s.world_size;
      if (differs && first == nullptr) first = &source;
      return differs;
    });
    if (first == nullptr) return;
    const std::string join = difference_text(target.devices, first->devices);
    const std::string leave = difference_text(first->devices, target.devices);
    message = "another world size than " + from + "; from " + entry_title(*first->entry);
    if (!join.empty()) message += " ranks " + join + " join";
    if (!leave.empty())
      message += std::string(join.empty() ? "" : ",") + " ranks " + leave + " leave";
    c.note("S709", kAll, c.kWorld, message);
  }

  // S803.
  void check_switch_memory(EntryChecker& c, const Side& target) {
    if (!target.memory) return;
    std::int64_t most = 0;
    const std::string from = sources(target, [&](const Side& source) {
      if (!source.memory) return false;
      const std::int64_t need = peak_of_switch(source, target);
      if (need <= *options_.memory_limit) return false;
      most = std::max(most, need);
      return true;
    });
    if (from.empty()) return;
    c.note("S803", kAll, "",
           "source state and target optimizer together need " + num(most) +
               " bytes on a rank, limit " + num(*options_.memory_limit) + ", from " + from +
               ": the switch must free source storage early and cannot roll back");
  }

  // max over devices of need_source + optimizer_target. Ranks of one stage are alike, so only
  // devices at which a stage of either side starts need to be looked at.
  std::int64_t peak_of_switch(const Side& source, const Side& target) {
    if (!strategy_of(source).ranks.empty() || !strategy_of(target).ranks.empty()) {
      return peak_over_devices(source, target);
    }
    const std::int64_t step = std::gcd(source.stage_stride, target.stage_stride);
    const std::int64_t worlds =
        std::max(strategy_of(source).world_size, strategy_of(target).world_size);
    std::int64_t peak = 0;
    for (std::int64_t rank = 0; rank < worlds && memory_steps_ <= kMostMemorySteps; rank += step) {
      ++memory_steps_;
      peak = std::max(peak, need_at(source, rank) + optimizer_at(target, rank));
    }
    return peak;
  }

  std::int64_t peak_over_devices(const Side& source, const Side& target) {
    std::map<std::int64_t, std::int64_t> need;
    const auto add = [&](const Side& side, bool whole) {
      const Strategy& s = strategy_of(side);
      for (std::int32_t rank = 0; rank < s.world_size && memory_steps_ <= kMostMemorySteps;
           ++rank) {
        ++memory_steps_;
        need[s.device_of(rank).value] += whole ? need_at(side, rank) : optimizer_at(side, rank);
      }
    };
    add(source, true);
    add(target, false);
    std::int64_t peak = 0;
    for (const auto& [device, bytes] : need) peak = std::max(peak, bytes);
    return peak;
  }

  static const StageBytes* stage_at(const Side& side, std::int64_t rank) {
    const Strategy& s = strategy_of(side);
    if (rank >= s.world_size) return nullptr;
    const std::int64_t stage = rank / side.stage_stride % s.pipeline_model_parallel_size;
    return &(*side.memory)[static_cast<std::size_t>(stage)];
  }
  static std::int64_t need_at(const Side& side, std::int64_t rank) {
    const StageBytes* stage = stage_at(side, rank);
    return stage == nullptr ? 0 : stage->total();
  }
  static std::int64_t optimizer_at(const Side& side, std::int64_t rank) {
    const StageBytes* stage = stage_at(side, rank);
    return stage == nullptr ? 0 : stage->optimizer;
  }

  // S905, S908.
  void check_elastic(EntryChecker& c, const Side& target) {
    const std::string scaled = sources(target, [&](const Side& source) {
      const Strategy& o = strategy_of(source);
      const std::int64_t k = o.num_distributed_optimizer_instances;
      if (k == c.instances()) return false;
      const bool both = k > 1 && c.instances() > 1;
      const bool grids =
          saturating_product({o.tensor_model_parallel_size, o.pipeline_model_parallel_size}) !=
              saturating_product({c.tp(), c.pp()}) ||
          o.context_parallel_size != c.cp();
      const bool ratio = o.world_size * c.instances() != c.world() * k;
      return both || o.world_size == c.world() || grids || ratio;
    });
    if (!scaled.empty()) {
      c.note("S905", kAll, c.kInstances,
             "ElasticMegatron changes the instances only with the world size, tp·pp and cp kept; "
             "it would refuse the switch from " +
                 scaled);
    }
    const std::string same = sources(target, [&](const Side& source) {
      const Strategy& o = strategy_of(source);
      return source.entry->index < c.entry.index && o.world_size == c.world() &&
             o.tensor_model_parallel_size == c.tp() && o.pipeline_model_parallel_size == c.pp() &&
             o.context_parallel_size == c.cp() &&
             o.num_distributed_optimizer_instances == c.instances() &&
             o.expert_model_parallel_size == c.ep() && o.etp() == c.etp();
    });
    if (!same.empty()) {
      c.note("S908", kAll, "",
             "ElasticMegatron prints the same world size, tp, pp, cp, instances, ep and etp for " +
                 same + " and would refuse the list");
    }
  }

  const ModelFacts& facts_;
  const Options& options_;
  std::vector<Diagnostic>& findings_;
  std::vector<Side> sides_;
  bool too_many_ = false;
  std::int64_t memory_steps_ = 0;
};

}  // namespace

void check_switches(std::vector<Entry>& entries, const ModelFacts& facts, const Options& options,
                    std::vector<Diagnostic>& findings) {
  SwitchChecker(entries, facts, options, findings).run();
}

}  // namespace plan::check
