#include "libplan/verify/contents.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "libplan/verify/content.h"
#include "libplan/verify/element_rules.h"
#include "libplan/verify/ops.h"

namespace plan::verify {
namespace {

// Bytes of a scratch storage that an op of the current phase touches.
struct Touch {
  std::int32_t storage = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool writes = false;
  OpRef op;
};

struct RankState {
  std::vector<ByteMap> bytes;      // per storage; used for scratch and allocated opaque ones
  std::vector<bool> is_allocated;  // by some window
  std::vector<bool> is_taken;      // a source that an alias takes over
  std::vector<Touch> touches;      // of the current phase
  std::vector<std::int32_t> match_of_send;
  std::vector<std::int32_t> match_of_receive;
};

class SymbolicRun {
 public:
  SymbolicRun(const ir::Schedule& schedule, const std::vector<ProgramPieces>& pieces,
              const std::vector<Match>& matches, Budget& budget, Findings& findings, Report& report)
      : schedule_(schedule),
        pieces_(pieces),
        matches_(matches),
        budget_(budget),
        findings_(findings),
        report_(report),
        rules_(schedule),
        sent_(matches.size()) {
    for (const ir::Program& program : schedule.programs) ranks_.push_back(start(program));
    for (std::size_t i = 0; i < matches.size(); ++i) {
      const Match& match = matches[i];
      if (!match.sound) continue;
      state_of(match.send.program).match_of_send[static_cast<std::size_t>(match.send.index)] =
          static_cast<std::int32_t>(i);
      state_of(match.receive.program)
          .match_of_receive[static_cast<std::size_t>(match.receive.index)] =
          static_cast<std::int32_t>(i);
    }
  }

  void run() {
    struct Step {
      std::int32_t number, program, window;
    };
    std::vector<Step> steps;
    for (std::size_t p = 0; p < schedule_.programs.size(); ++p) {
      const std::vector<ir::Window>& windows = schedule_.programs[p].windows;
      for (std::size_t w = 0; w < windows.size(); ++w) {
        steps.push_back(
            {windows[w].number, static_cast<std::int32_t>(p), static_cast<std::int32_t>(w)});
      }
    }
    std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
      return std::tie(a.number, a.program) < std::tie(b.number, b.program);
    });
    for (std::size_t first = 0; first < steps.size() && !budget_.exhausted();) {
      std::size_t last = first;
      while (last < steps.size() && steps[last].number == steps[first].number) ++last;
      for (std::size_t i = first; i < last; ++i) begin_window(steps[i].program, steps[i].window);
      for (std::size_t i = first; i < last; ++i) end_window(steps[i].program, steps[i].window);
      first = last;
    }
    if (!budget_.exhausted()) check_opaque();
  }

 private:
  using ProgramIndex = std::int32_t;

  RankState& state_of(ProgramIndex p) { return ranks_[static_cast<std::size_t>(p)]; }
  const ir::Program& program_of(ProgramIndex p) const {
    return schedule_.programs[static_cast<std::size_t>(p)];
  }

  static RankState start(const ir::Program& program) {
    RankState state;
    state.bytes.resize(program.storages.size());
    state.is_allocated.assign(program.storages.size(), false);
    state.is_taken.assign(program.storages.size(), false);
    for (const ir::Window& window : program.windows) {
      for (const StorageId id : ir::view(program.storage_ids, window.allocate)) {
        state.is_allocated[static_cast<std::size_t>(id.value)] = true;
      }
    }
    for (const ir::Storage& storage : program.storages) {
      if (storage.alias_of.valid()) {
        state.is_taken[static_cast<std::size_t>(storage.alias_of.value)] = true;
      }
    }
    state.match_of_send.assign(program.sends.size(), -1);
    state.match_of_receive.assign(program.receives.size(), -1);
    return state;
  }

  // Up to and with what the window sends.
  void begin_window(ProgramIndex p, std::int32_t w) {
    const ir::Program& program = program_of(p);
    const ir::Window& window = program.windows[static_cast<std::size_t>(w)];
    forget(p, window.allocate);
    run_local(p, w, Phase::Before);
    for_each_op(program, w, Phase::Exchange, [&](const OpRef& op) {
      if (op.kind != OpKind::Send || !is_sound(program, op)) return;
      std::vector<Span> content = read(p, op);
      const std::int32_t match = state_of(p).match_of_send[static_cast<std::size_t>(op.index)];
      if (match >= 0) sent_[static_cast<std::size_t>(match)] = std::move(content);
    });
  }

  void end_window(ProgramIndex p, std::int32_t w) {
    const ir::Program& program = program_of(p);
    for_each_op(program, w, Phase::Exchange, [&](const OpRef& op) {
      if (op.kind != OpKind::Receive) return;
      std::vector<Span> content;
      const std::int32_t match = state_of(p).match_of_receive[static_cast<std::size_t>(op.index)];
      if (match >= 0) content.swap(sent_[static_cast<std::size_t>(match)]);
      if (is_sound(program, op)) write(p, op, std::move(content));
    });
    check_touches(p);
    run_local(p, w, Phase::After);
    forget(p, program.windows[static_cast<std::size_t>(w)].free);
  }

  void forget(ProgramIndex p, ir::Range ids) {
    for (const StorageId id : ir::view(program_of(p).storage_ids, ids)) {
      state_of(p).bytes[static_cast<std::size_t>(id.value)].clear();
    }
  }

  // All reads of a phase see what was there before it.
  void run_local(ProgramIndex p, std::int32_t w, Phase phase) {
    const ir::Program& program = program_of(p);
    std::vector<std::pair<OpRef, std::vector<Span>>> contents;
    for_each_op(program, w, phase, [&](const OpRef& op) {
      if (is_sound(program, op)) contents.emplace_back(op, read(p, op));
    });
    for (auto& [op, content] : contents) write(p, op, std::move(content));
    check_touches(p);
  }

  // At most one finding of each rule for one side of an op: the first.
  class OnePerRule {
   public:
    bool first(std::string_view rule) {
      if (std::find(seen_.begin(), seen_.end(), rule) != seen_.end()) return false;
      seen_.push_back(rule);
      return true;
    }

   private:
    std::vector<std::string_view> seen_;
  };

  void give_up(const ir::Program& program, const OpRef& op) {
    if (std::exchange(gave_up_, true)) return;
    findings_.add(finding_at(program, op, -1, "V317",
                             "the slices up to here address too many separate boxes"));
  }

  // What an op moves: the content of all that it reads, or its pattern.
  std::vector<Span> read(ProgramIndex p, const OpRef& op) {
    const ir::Program& program = program_of(p);
    std::vector<Span> spans;
    if (op.kind == OpKind::Fill) {
      Span fill;
      fill.content = Content::Fill;
      fill.bytes = total_bytes(program, written_slices(program, op));
      spans.push_back(fill);
      return spans;
    }
    const auto slices = read_slices(program, op);
    OnePerRule reported;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const std::size_t first = spans.size();
      for (std::int32_t lane = 0; lane < slices[i].lanes; ++lane) {
        read_lane(p, op, slices[i], lane, spans);
      }
      for (std::size_t s = first; s < spans.size(); ++s) {
        Span& span = spans[s];
        if (span.content != Content::Nothing && span.content != Content::CutInside) continue;
        const bool nothing = span.content == Content::Nothing;
        const char* rule = nothing ? "V306" : "V402";
        if (reported.first(rule)) {
          const bool is_send = op.kind == OpKind::Send;
          findings_.add(finding_at(
              program, op, is_send ? static_cast<int>(i) : 0, rule,
              "reads " + std::to_string(span.bytes) +
                  (nothing ? " bytes that hold nothing" : " bytes of a part of an element")));
        }
        span.content = Content::Unknown;
      }
    }
    if (op.kind == OpKind::Convert) convert(program, op, spans);
    return spans;
  }

  void read_lane(ProgramIndex p, const OpRef& op, const ir::Slice& slice, std::int32_t lane,
                 std::vector<Span>& spans) {
    const ir::Program& program = program_of(p);
    const StorageId id(slice.storage.value + lane);
    const ir::Storage& storage = storage_of(program, id);
    if (storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Target) {
      name_elements(p, op, slice, lane, spans);
      return;
    }
    if (is_given_opaque(p, id)) {
      Span opaque;
      opaque.content = Content::Opaque;
      opaque.bytes = lane_bytes(program, slice);
      if (opaque.bytes > 0) spans.push_back(opaque);
      return;
    }
    RankState& state = state_of(p);
    const bool finished =
        for_each_run(program, slice, budget_, [&](std::int64_t offset, std::int64_t bytes) {
          state.touches.push_back({id.value, offset, offset + bytes, false, op});
          state.bytes[static_cast<std::size_t>(id.value)].read(offset, offset + bytes, spans);
        });
    if (!finished) give_up(program, op);
  }

  bool is_given_opaque(ProgramIndex p, StorageId id) {
    return storage_of(program_of(p), id).role == ir::StorageRole::Opaque &&
           !state_of(p).is_allocated[static_cast<std::size_t>(id.value)];
  }

  // The elements that belong at these bytes of a source or target.
  void name_elements(ProgramIndex p, const OpRef& op, const ir::Slice& slice, std::int32_t lane,
                     std::vector<Span>& spans) {
    const ir::Program& program = program_of(p);
    const StorageId id(slice.storage.value + lane);
    const ir::Storage& storage = storage_of(program, id);
    const ProgramPieces& pieces = pieces_[static_cast<std::size_t>(p)];
    parts_.clear();
    if (!decode_lane(program, pieces, slice, lane, parts_, budget_)) give_up(program, op);
    for (const Part& part : parts_) {
      Span span;
      span.bytes = part.num_elems * size_bytes(storage.dtype);
      span.content = Content::Nothing;
      if (part.piece >= 0) {
        span.content = Content::Element;
        span.dtype = storage.dtype;
        span.tensor = pieces.of(id).pieces()[static_cast<std::size_t>(part.piece)].tensor;
        span.state = storage.state;
        span.box = part.box;
      }
      spans.push_back(span);
    }
  }

  void convert(const ir::Program& program, const OpRef& op, std::vector<Span>& spans) {
    const ir::Convert& at = program.converts[static_cast<std::size_t>(op.index)];
    const std::int64_t from = size_bytes(at.from_dtype);
    const std::int64_t to = size_bytes(at.to_dtype);
    const bool exact = is_exact_cast(at.from_dtype, at.to_dtype);
    OnePerRule reported;
    for (Span& span : spans) {
      if (span.content == Content::Element && span.dtype != at.from_dtype) {
        if (reported.first("V316")) {
          add(program, op, 0, "V316",
              "converts from " + std::string(name_of(at.from_dtype)) + " what is " +
                  std::string(name_of(span.dtype)),
              span);
        }
        span.content = Content::Unknown;
      } else if (span.content == Content::Element) {
        const bool again = span.rounded && at.from_dtype != at.to_dtype;
        const bool mixed = is_floating(at.from_dtype) != is_floating(at.to_dtype);
        if ((again || mixed) && reported.first("V316")) {
          add(program, op, 0, "V316",
              again ? "converts a value that has been rounded before"
                    : "converts between integers and floating-point numbers",
              span);
        }
        span.dtype = at.to_dtype;
        span.rounded = span.rounded || !exact;
      } else if (span.content != Content::Unknown && reported.first("V310")) {
        add(program, op, 0, "V310", "converts " + rules_.describe(span), span);
      }
      if (__builtin_mul_overflow(span.bytes / from, to, &span.bytes)) {
        span = Span{};  // the sides differ in size then, which lifetime.cc reports
        span.bytes = INT64_MAX;
      }
    }
  }

  void write(ProgramIndex p, const OpRef& op, std::vector<Span> content) {
    const ir::Program& program = program_of(p);
    const auto slices = written_slices(program, op);
    SpanStream stream(std::move(content));
    OnePerRule reported;
    for (std::size_t i = 0; i < slices.size(); ++i) {
      const int number = op.kind == OpKind::Receive ? static_cast<int>(i) : 1;
      for (std::int32_t lane = 0; lane < slices[i].lanes; ++lane) {
        write_lane(p, op, number, slices[i], lane, stream, reported);
      }
    }
  }

  void write_lane(ProgramIndex p, const OpRef& op, int number, const ir::Slice& slice,
                  std::int32_t lane, SpanStream& stream, OnePerRule& reported) {
    const ir::Program& program = program_of(p);
    RankState& state = state_of(p);
    const StorageId id(slice.storage.value + lane);
    const auto position = static_cast<std::size_t>(id.value);
    const ir::Storage& storage = storage_of(program, id);
    std::vector<Span> content;
    if (storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Target) {
      stream.take(lane_bytes(program, slice), content);
      // What lies in a source that no target takes over is of no further use: see coverage.cc.
      if (storage.role == ir::StorageRole::Source && !state.is_taken[position]) return;
      std::vector<Span> expected;
      name_elements(p, op, slice, lane, expected);
      for_each_pair(content, expected, [&](const Span& found, const Span& wanted) {
        compare(program, op, number, found, wanted, reported);
      });
      return;
    }
    if (is_given_opaque(p, id)) {
      if (reported.first("V312")) {
        findings_.add(finding_at(program, op, number, "V312",
                                 "writes opaque storage " + std::to_string(id.value) +
                                     ", which is there from the start"));
      }
      return;
    }
    const bool finished =
        for_each_run(program, slice, budget_, [&](std::int64_t offset, std::int64_t bytes) {
          state.touches.push_back({id.value, offset, offset + bytes, true, op});
          content.clear();
          stream.take(bytes, content);
          state.bytes[position].write(offset, content);
          if (storage.role != ir::StorageRole::Opaque) return;
          for (const Span& span : content) {
            const bool fits = span.content == Content::Opaque || span.content == Content::Unknown;
            if (!fits && reported.first("V310")) {
              add(program, op, number, "V310", "writes state over opaque bytes", span);
            }
          }
        });
    if (!finished) give_up(program, op);
  }

  void add(const ir::Program& program, const OpRef& op, int slice, std::string_view rule,
           std::string message, const Span& span) {
    Diagnostic diagnostic = finding_at(program, op, slice, std::string(rule), std::move(message));
    if (span.content == Content::Element) {
      diagnostic.tensor = schedule_.tensors[static_cast<std::size_t>(span.tensor.value)].name;
      diagnostic.state = schedule_.states[static_cast<std::size_t>(span.state.value)];
      diagnostic.box = span.box;
    }
    findings_.add(std::move(diagnostic));
  }

  void compare(const ir::Program& program, const OpRef& op, int slice, const Span& found,
               const Span& wanted, OnePerRule& reported) {
    Verdict verdict = rules_.judge(found, wanted);
    if (!verdict.rule.empty()) {
      if (reported.first(verdict.rule)) {
        add(program, op, slice, verdict.rule, std::move(verdict.message), wanted);
      }
    } else if (found.content != Content::Unknown && wanted.content == Content::Element) {
      add_checked(wanted.bytes);
    }
  }

  void add_checked(std::int64_t bytes) {
    if (__builtin_add_overflow(report_.checked_bytes, bytes, &report_.checked_bytes)) {
      report_.checked_bytes = INT64_MAX;
    }
  }

  // No two ops of a phase may touch the same scratch bytes if one of them writes.
  void check_touches(ProgramIndex p) {
    std::vector<Touch>& touches = state_of(p).touches;
    std::stable_sort(touches.begin(), touches.end(), [](const Touch& a, const Touch& b) {
      return std::tie(a.storage, a.begin) < std::tie(b.storage, b.begin);
    });
    const Touch* furthest = nullptr;        // of those seen of this storage
    const Touch* furthest_write = nullptr;  // of the writes among them
    for (const Touch& touch : touches) {
      if (furthest != nullptr && furthest->storage != touch.storage) {
        furthest = furthest_write = nullptr;
      }
      const Touch* other = touch.writes ? furthest : furthest_write;
      if (other != nullptr && touch.begin < other->end) {
        findings_.add(finding_at(
            program_of(p), touch.op, -1, "V307",
            std::string(touch.writes ? "writes" : "reads") + " bytes from " +
                std::to_string(touch.begin) + " on of storage " + std::to_string(touch.storage) +
                " that " + describe(program_of(p), other->op) +
                (other->writes ? " writes" : " reads") + " in the same phase"));
      }
      if (furthest == nullptr || touch.end > furthest->end) furthest = &touch;
      if (touch.writes && (furthest_write == nullptr || touch.end > furthest_write->end)) {
        furthest_write = &touch;
      }
    }
    touches.clear();
  }

  // Opaque storages that a window allocated are whole at the end.
  void check_opaque() {
    for (std::size_t p = 0; p < ranks_.size(); ++p) {
      const ir::Program& program = schedule_.programs[p];
      for (std::size_t s = 0; s < program.storages.size(); ++s) {
        const ir::Storage& storage = program.storages[s];
        if (storage.role != ir::StorageRole::Opaque || !ranks_[p].is_allocated[s]) continue;
        std::vector<Span> content;
        ranks_[p].bytes[s].read(0, storage.size_bytes, content);
        const bool whole = std::none_of(content.begin(), content.end(), [](const Span& span) {
          return span.content == Content::Nothing;
        });
        if (whole) continue;
        Diagnostic diagnostic;
        diagnostic.rule = "V309";
        diagnostic.message =
            "opaque storage " + std::to_string(s) + " ends with bytes that nothing wrote";
        diagnostic.rank = program.rank;
        findings_.add(std::move(diagnostic));
      }
    }
  }

  const ir::Schedule& schedule_;
  const std::vector<ProgramPieces>& pieces_;
  const std::vector<Match>& matches_;
  Budget& budget_;
  Findings& findings_;
  Report& report_;
  ElementRules rules_;
  std::vector<RankState> ranks_;         // per program
  std::vector<std::vector<Span>> sent_;  // per match, between its send and its receive
  std::vector<Part> parts_;
  bool gave_up_ = false;
};

}  // namespace

void check_contents(const ir::Schedule& schedule, const std::vector<ProgramPieces>& pieces,
                    const std::vector<Match>& matches, Budget& budget, Findings& findings,
                    Report& report) {
  SymbolicRun(schedule, pieces, matches, budget, findings, report).run();
}

}  // namespace plan::verify
