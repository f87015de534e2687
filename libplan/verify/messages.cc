#include "libplan/verify/messages.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>

#include "libplan/verify/ops.h"

namespace plan::verify {
namespace {

struct MessageEnd {
  std::int64_t message = 0;
  bool is_receive = false;
  Match::End at;
  RankId rank;
  RankId peer;
  std::int64_t bytes = 0;
};

class MessageCheck {
 public:
  MessageCheck(const ir::Schedule& schedule, Findings& findings)
      : schedule_(schedule), findings_(findings), has_program_(schedule.ranks.size(), false) {
    for (const ir::Program& program : schedule.programs) {
      has_program_[static_cast<std::size_t>(program.rank.value)] = true;
    }
  }

  std::vector<Match> check() {
    for (std::size_t p = 0; p < schedule_.programs.size(); ++p) {
      const ir::Program& program = schedule_.programs[p];
      for (std::size_t w = 0; w < program.windows.size(); ++w) {
        check_window(static_cast<std::int32_t>(p), static_cast<std::int32_t>(w));
      }
    }
    std::sort(ends_.begin(), ends_.end(), [](const MessageEnd& a, const MessageEnd& b) {
      return std::tie(a.message, a.is_receive, a.rank, a.at.index) <
             std::tie(b.message, b.is_receive, b.rank, b.at.index);
    });
    std::vector<Match> matches;
    for (std::size_t first = 0; first < ends_.size();) {
      std::size_t last = first;
      while (last < ends_.size() && ends_[last].message == ends_[first].message) ++last;
      match(first, last, matches);
      first = last;
    }
    return matches;
  }

 private:
  const ir::Program& program_of(const MessageEnd& end) const {
    return schedule_.programs[static_cast<std::size_t>(end.at.program)];
  }
  std::int32_t window_of(const MessageEnd& end) const {
    return program_of(end).windows[static_cast<std::size_t>(end.at.window)].number;
  }
  static OpRef op_of(const MessageEnd& end) {
    return {end.at.window, Phase::Exchange, end.is_receive ? OpKind::Receive : OpKind::Send,
            end.at.index};
  }
  void add(const MessageEnd& end, std::string_view rule, std::string message) {
    findings_.add(
        finding_at(program_of(end), op_of(end), -1, std::string(rule), std::move(message)));
  }

  void check_window(std::int32_t program_index, std::int32_t window_index) {
    const ir::Program& program = schedule_.programs[static_cast<std::size_t>(program_index)];
    const ir::Window& window = program.windows[static_cast<std::size_t>(window_index)];
    RankId previous_send;
    RankId previous_receive;
    for_each_op(program, window_index, Phase::Exchange, [&](const OpRef& op) {
      MessageEnd end;
      end.is_receive = op.kind == OpKind::Receive;
      end.at = {program_index, window_index, op.index};
      end.rank = program.rank;
      if (end.is_receive) {
        const ir::Receive& receive = program.receives[static_cast<std::size_t>(op.index)];
        std::tie(end.message, end.peer) = std::tie(receive.message, receive.from_rank);
        end.bytes = total_bytes(program, written_slices(program, op));
      } else {
        const ir::Send& send = program.sends[static_cast<std::size_t>(op.index)];
        std::tie(end.message, end.peer) = std::tie(send.message, send.to_rank);
        end.bytes = total_bytes(program, read_slices(program, op));
      }
      if (end.peer == end.rank) add(end, "V209", "the peer is the rank itself");
      RankId& previous = end.is_receive ? previous_receive : previous_send;
      if (end.peer == previous) add(end, "V206", "a second message of this pair in one window");
      if (end.peer < previous) {
        add(end, "V207", "comes after rank " + std::to_string(previous.value));
      }
      previous = std::max(previous, end.peer);
      ends_.push_back(end);
    });
    const std::int64_t ops = std::int64_t{window.sends.count} + window.receives.count;
    if (ops <= schedule_.window_ops) return;
    Diagnostic diagnostic;
    diagnostic.rule = "V208";
    diagnostic.message = "expected at most " + std::to_string(schedule_.window_ops) +
                         " sends and receives, found " + std::to_string(ops);
    diagnostic.rank = program.rank;
    diagnostic.window = window.number;
    findings_.add(std::move(diagnostic));
  }

  // Ends [first, last) carry one message number, sends before receives.
  void match(std::size_t first, std::size_t last, std::vector<Match>& matches) {
    std::size_t receives = first;
    while (receives < last && !ends_[receives].is_receive) ++receives;
    const std::size_t num_sends = receives - first;
    const std::size_t num_receives = last - receives;
    for (std::size_t i = first + 1; i < last; ++i) {
      if (i != receives) add(ends_[i], "V201", "this number is used before on this side");
    }
    if (num_sends == 0 || num_receives == 0) {
      for (std::size_t i = first; i < last; ++i) check_lone(ends_[i]);
      return;
    }
    if (num_sends != 1 || num_receives != 1) return;
    check_pair(ends_[first], ends_[receives], matches);
  }

  void check_lone(const MessageEnd& end) {
    if (!has_program_[static_cast<std::size_t>(end.peer.value)]) return;
    add(end, "V202",
        "rank " + std::to_string(end.peer.value) + " has no " +
            (end.is_receive ? "send" : "receive") + " of this number");
  }

  void check_pair(const MessageEnd& send, const MessageEnd& receive, std::vector<Match>& matches) {
    if (send.peer != receive.rank || receive.peer != send.rank) {
      add(receive, "V203",
          "rank " + std::to_string(send.rank.value) + " sends this number to rank " +
              std::to_string(send.peer.value));
      return;
    }
    const bool same_window = window_of(send) == window_of(receive);
    if (!same_window) {
      add(receive, "V204", "it is sent in window " + std::to_string(window_of(send)));
    }
    if (send.bytes != receive.bytes) {
      add(receive, "V205",
          "sent are " + std::to_string(send.bytes) + " bytes, received " +
              std::to_string(receive.bytes));
    }
    matches.push_back(
        {send.message, send.at, receive.at, same_window && send.bytes == receive.bytes});
  }

  const ir::Schedule& schedule_;
  Findings& findings_;
  std::vector<bool> has_program_;
  std::vector<MessageEnd> ends_;
};

}  // namespace

std::vector<Match> check_messages(const ir::Schedule& schedule, Findings& findings) {
  return MessageCheck(schedule, findings).check();
}

}  // namespace plan::verify
