#include "libplan/execute/host/host_replay.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "libplan/base/error.h"
#include "libplan/execute/host/rendezvous.h"
#include "libplan/execute/host/slice_copy.h"

namespace plan {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time of its life to a number of seconds.
class PhaseTimer {
 public:
  explicit PhaseTimer(double& seconds) : seconds_(seconds), start_(Clock::now()) {}
  ~PhaseTimer() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& seconds_;
  Clock::time_point start_;
};

// What one rank does, on its own thread.
class RankReplay {
 public:
  RankReplay(const ir::Schedule& schedule, const ir::Program& program, HostMemory& memory,
             const ReplayOptions& options, MessageExchange& exchange)
      : schedule_(schedule),
        program_(program),
        memory_(memory),
        options_(options),
        exchange_(exchange),
        may_fail_(options.fail_rank == program.rank) {}

  void run() {
    for (const ir::Window& window : program_.windows) {
      if (window.number < options_.first_window) continue;
      if (window.number >= options_.end_window) break;
      if (exchange_.stopped()) throw ReplayStopped{};
      window_ = window.number;
      run_window(window);
    }
    if (may_fail_) throw_injected_fault();
  }

  RankId rank() const { return program_.rank; }
  std::int32_t window() const { return window_; }  // the last one begun; -1: none
  const ReplayReport& report() const { return report_; }

 private:
  void run_window(const ir::Window& window);
  void run_local(const ir::LocalOps& ops);
  void run_exchange(const ir::Window& window);
  void append(const ir::Slice& slice, SliceList& list) const;
  SliceList list_of(const ir::Slice& slice) const;
  SliceList list_of(ir::Range slices) const;
  void count_sent(RankId to, std::int64_t bytes);
  [[noreturn]] void throw_injected_fault() const {
    throw Error(ErrorCode::Executor, "injected fault");
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  HostMemory& memory_;
  const ReplayOptions& options_;
  MessageExchange& exchange_;
  bool may_fail_;
  std::int32_t window_ = -1;
  ReplayReport report_;  // this rank's share
};

void RankReplay::run_window(const ir::Window& window) {
  {
    const PhaseTimer timer(report_.seconds.allocate);
    for (const StorageId id : ir::view(program_.storage_ids, window.allocate)) {
      memory_.allocate(rank(), id);
      exchange_.note_progress();
    }
  }
  run_local(window.before);
  if (may_fail_ && window.number >= options_.fail_window) throw_injected_fault();
  run_exchange(window);
  run_local(window.after);
  const PhaseTimer timer(report_.seconds.allocate);
  for (const StorageId id : ir::view(program_.storage_ids, window.free)) memory_.free(rank(), id);
}

void RankReplay::append(const ir::Slice& slice, SliceList& list) const {
  for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
    std::byte* storage = memory_.data(rank(), StorageId(slice.storage.value + lane));
    list.append(storage + slice.offset_bytes, slice.run_bytes,
                ir::view(program_.slice_dims, slice.dims));
  }
}

SliceList RankReplay::list_of(const ir::Slice& slice) const {
  SliceList list;
  append(slice, list);
  return list;
}

SliceList RankReplay::list_of(ir::Range slices) const {
  SliceList list;
  for (const ir::Slice& slice : ir::view(program_.slices, slices)) append(slice, list);
  return list;
}

void RankReplay::run_local(const ir::LocalOps& ops) {
  const PhaseTimer timer(report_.seconds.copy);
  for (const ir::Copy& copy : ir::view(program_.copies, ops.copies)) {
    const SliceList to = list_of(copy.to);
    copy_slices(list_of(copy.from), to);
    report_.local_bytes += to.num_bytes();
    exchange_.note_progress();
  }
  for (const ir::Fill& fill : ir::view(program_.fills, ops.fills)) {
    const SliceList to = list_of(fill.to);
    fill_slices(to, fill.pattern, fill.pattern_bytes);
    report_.filled_bytes += to.num_bytes();
    exchange_.note_progress();
  }
  for (const ir::Convert& convert : ir::view(program_.converts, ops.converts)) {
    const SliceList to = list_of(convert.to);
    convert_slices(list_of(convert.from), convert.from_dtype, to, convert.to_dtype);
    report_.local_bytes += to.num_bytes();
    exchange_.note_progress();
  }
}

void RankReplay::count_sent(RankId to, std::int64_t bytes) {
  const auto node_of = [&](RankId rank) {
    return schedule_.ranks[static_cast<std::size_t>(rank.value)].node;
  };
  const bool same_node = node_of(rank()) == node_of(to);
  (same_node ? report_.intra_node_bytes : report_.inter_node_bytes) += bytes;
  ++report_.messages;
}

void RankReplay::run_exchange(const ir::Window& window) {
  const PhaseTimer timer(report_.seconds.exchange);
  for (const ir::Receive& receive : ir::view(program_.receives, window.receives)) {
    exchange_.post(receive.message, MessageEnd::Receiver,
                   {rank(), receive.from_rank, window.number, list_of(receive.slices)});
  }
  for (const ir::Send& send : ir::view(program_.sends, window.sends)) {
    SliceList slices = list_of(send.slices);
    count_sent(send.to_rank, slices.num_bytes());
    exchange_.post(send.message, MessageEnd::Sender,
                   {rank(), send.to_rank, window.number, std::move(slices)});
  }
  exchange_.finish(rank());
}

// The first failure of any rank; later ones are its consequences.
class FirstFailure {
 public:
  void record(std::string message, std::string place) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_.emplace(ErrorCode::Executor, std::move(message), std::move(place));
  }
  void rethrow() const {
    if (error_) throw *error_;
  }

 private:
  std::mutex mutex_;
  std::optional<Error> error_;
};

// Whatever fails on a rank ends here and stops the others.
void run_rank(RankReplay& rank, MessageExchange& exchange, FirstFailure& failure) {
  try {
    rank.run();
  } catch (const ReplayStopped&) {
  } catch (const std::exception& error) {
    failure.record(error.what(), "rank " + std::to_string(rank.rank().value) + ", window " +
                                     std::to_string(rank.window()));
    exchange.stop();
  }
}

void run_threads(std::vector<RankReplay>& ranks, MessageExchange& exchange, FirstFailure& failure) {
  std::vector<std::thread> threads;
  threads.reserve(ranks.size());
  try {
    for (RankReplay& rank : ranks) {
      threads.emplace_back(run_rank, std::ref(rank), std::ref(exchange), std::ref(failure));
    }
  } catch (const std::system_error& error) {
    failure.record("expected a thread for each of " + std::to_string(ranks.size()) +
                       " ranks, found " + std::to_string(threads.size()) + ": " + error.what(),
                   "");
    exchange.stop();
  }
  for (std::thread& thread : threads) thread.join();
}

void add(ReplayReport& total, const ReplayReport& part) {
  total.seconds.allocate = std::max(total.seconds.allocate, part.seconds.allocate);
  total.seconds.copy = std::max(total.seconds.copy, part.seconds.copy);
  total.seconds.exchange = std::max(total.seconds.exchange, part.seconds.exchange);
  total.local_bytes += part.local_bytes;
  total.filled_bytes += part.filled_bytes;
  total.intra_node_bytes += part.intra_node_bytes;
  total.inter_node_bytes += part.inter_node_bytes;
  total.messages += part.messages;
}

// A rank without windows needs no thread, except to fail on demand.
bool has_work(const ir::Program& program, const ReplayOptions& options) {
  return !program.windows.empty() || program.rank == options.fail_rank;
}

}  // namespace

double ReplayReport::gigabytes_per_second() const {
  const std::int64_t bytes = local_bytes + filled_bytes + intra_node_bytes + inter_node_bytes;
  return total_seconds > 0 ? static_cast<double>(bytes) / total_seconds * 1e-9 : 0;
}

ReplayReport replay(const ir::Schedule& schedule, HostMemory& memory,
                    const ReplayOptions& options) {
  MessageExchange exchange(schedule, options.part_bytes, options.timeout_seconds);
  std::vector<RankReplay> ranks;
  for (const ir::Program& program : schedule.programs) {
    if (has_work(program, options))
      ranks.emplace_back(schedule, program, memory, options, exchange);
  }
  FirstFailure failure;
  const Clock::time_point start = Clock::now();
  run_threads(ranks, exchange, failure);
  ReplayReport report;
  report.total_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  failure.rethrow();
  for (const RankReplay& rank : ranks) add(report, rank.report());
  report.peak_bytes.resize(schedule.ranks.size(), 0);
  for (const ir::Program& program : schedule.programs) {
    report.peak_bytes[static_cast<std::size_t>(program.rank.value)] =
        memory.peak_bytes(program.rank);
  }
  return report;
}

}  // namespace plan
