#include <iomanip>
#include <iostream>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/base/quantity.h"
#include "libplan/cost/estimate.h"
#include "libplan/schedule/canonical.h"
#include "libplan/schedule/plan_file.h"
#include "libplan/schedule/text.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

struct RankRow {
  std::int64_t sends = 0;
  std::int64_t sent_bytes = 0;
  std::int64_t receives = 0;
  std::int64_t received_bytes = 0;
  std::int64_t copied_bytes = 0;
};

RankRow row_of(const ir::Program& program) {
  RankRow row;
  for (const ir::Send& send : program.sends) {
    ++row.sends;
    row.sent_bytes += ir::num_bytes(program, send);
  }
  for (const ir::Receive& receive : program.receives) {
    ++row.receives;
    row.received_bytes += ir::num_bytes(program, receive);
  }
  for (const ir::Copy& copy : program.copies) row.copied_bytes += ir::num_bytes(program, copy.to);
  return row;
}

std::string role_of(const ir::RankEntry& entry) {
  if (entry.is_source && entry.is_target) return "both";
  if (entry.is_source) return "leaves";
  return entry.is_target ? "joins" : "relay";
}

std::string rank_table(const ir::Schedule& schedule, std::optional<std::int32_t> rank) {
  std::ostringstream text;
  text << std::right << std::setw(6) << "rank" << std::setw(8) << "worker" << std::setw(6) << "node"
       << std::setw(8) << "role" << std::setw(10) << "storages" << std::setw(9) << "windows"
       << std::setw(8) << "sends" << std::setw(14) << "sent" << std::setw(10) << "receives"
       << std::setw(14) << "received" << std::setw(14) << "copied" << std::setw(14) << "peak"
       << "\n";
  const std::vector<std::int64_t> peaks = peak_bytes(schedule);
  for (std::size_t i = 0; i < schedule.programs.size(); ++i) {
    const ir::Program& program = schedule.programs[i];
    if (rank && program.rank.value != *rank) continue;
    const ir::RankEntry& entry = schedule.ranks[static_cast<std::size_t>(program.rank.value)];
    const RankRow row = row_of(program);
    text << std::setw(6) << program.rank.value << std::setw(8) << entry.worker.value << std::setw(6)
         << entry.node.value << std::setw(8) << role_of(entry) << std::setw(10)
         << program.storages.size() << std::setw(9) << program.windows.size() << std::setw(8)
         << row.sends << std::setw(14) << bytes_text(row.sent_bytes) << std::setw(10)
         << row.receives << std::setw(14) << bytes_text(row.received_bytes) << std::setw(14)
         << bytes_text(row.copied_bytes) << std::setw(14) << bytes_text(peaks[i]) << "\n";
  }
  return text.str();
}

}  // namespace

int run_show_verb(const ShowArgs& args) {
  const ir::Schedule schedule = read_plan(args.plan);
  if (args.rank && ir::find_program(schedule, RankId(*args.rank)) == nullptr) {
    throw Error(ErrorCode::BadInput,
                "--rank: the plan has no program of rank " + std::to_string(*args.rank));
  }
  std::cout << "schedule " << digest(schedule) << "\nalgorithm " << schedule.algorithm << ", "
            << schedule.num_windows << " windows of at most " << schedule.window_ops
            << " messages a rank, " << schedule.ranks.size() << " ranks, "
            << schedule.tensors.size() << " tensors, states";
  for (const std::string& state : schedule.states) std::cout << " " << state;
  std::cout << "\n" << rank_table(schedule, args.rank);
  if (args.ops) {
    TextOptions options;
    if (args.rank) options.rank = RankId(*args.rank);
    options.max_lines = args.max_lines;
    std::cout << to_text(schedule, options);
  }
  return 0;
}

}  // namespace plan::tools
