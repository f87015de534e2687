#include <iostream>
#include <sstream>

#include "libplan/base/error.h"
#include "libplan/base/quantity.h"
#include "libplan/execute/host/host_replay.h"
#include "libplan/execute/host/oracle.h"
#include "libplan/schedule/plan_file.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

std::string to_json(const ReplayReport& report) {
  std::ostringstream text;
  text << "{\n \"total_seconds\": " << report.total_seconds
       << ",\n \"allocate_seconds\": " << report.seconds.allocate
       << ",\n \"copy_seconds\": " << report.seconds.copy
       << ",\n \"exchange_seconds\": " << report.seconds.exchange
       << ",\n \"local_bytes\": " << report.local_bytes
       << ",\n \"intra_node_bytes\": " << report.intra_node_bytes
       << ",\n \"inter_node_bytes\": " << report.inter_node_bytes
       << ",\n \"messages\": " << report.messages
       << ",\n \"gigabytes_per_second\": " << report.gigabytes_per_second() << "\n}\n";
  return text.str();
}

std::string to_table(const ReplayReport& report) {
  std::ostringstream text;
  text << "time        " << report.total_seconds * 1e3 << " ms (allocate "
       << report.seconds.allocate * 1e3 << ", copy " << report.seconds.copy * 1e3 << ", exchange "
       << report.seconds.exchange * 1e3 << ")\n"
       << "local       " << bytes_text(report.local_bytes) << "\n"
       << "inside nodes " << bytes_text(report.intra_node_bytes) << "\n"
       << "between nodes " << bytes_text(report.inter_node_bytes) << "\n"
       << "messages    " << report.messages << "\n"
       << "bandwidth   " << report.gigabytes_per_second() << " GB/s\n";
  return text.str();
}

}  // namespace

int run_run_verb(const RunArgs& args) {
  if (args.executor != "host") {
    throw Error(ErrorCode::Usage,
                "--executor: this build has host, found \"" + args.executor + "\"");
  }
  const ir::Schedule schedule = read_plan(args.plan);
  if (schedule.programs.size() != schedule.ranks.size()) {
    throw Error(ErrorCode::BadInput,
                "expected a whole plan, found the part of " +
                    std::to_string(schedule.programs.size()) + " of " +
                    std::to_string(schedule.ranks.size()) + " ranks",
                args.plan);
  }
  Progress progress(args.check ? "replaying and comparing" : "replaying");
  ReplayOptions options;
  options.timeout_seconds = args.timeout_seconds;
  ReplayReport report;
  bool ok = true;
  if (args.check) {
    const CheckedReplay checked = replay_checked(schedule, options);
    progress.done();
    report = checked.replay;
    ok = checked.ok();
    (ok ? std::cerr : std::cout) << to_string(checked.targets) << "\n";
    if (!checked.sources.ok())
      std::cout << "source state changed:\n" << to_string(checked.sources) << "\n";
  } else {
    HostMemory memory(schedule);
    memory.allocate_sources();
    fill_sources(schedule, memory, 1);
    report = replay(schedule, memory, options);
  }
  progress.done();
  std::cout << (args.json ? to_json(report) : to_table(report));
  return ok ? 0 : 1;
}

}  // namespace plan::tools
