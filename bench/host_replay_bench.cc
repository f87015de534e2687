// Host replay of a schedule beside a memcpy of as many bytes, both with one thread per rank, turn
// about in one run: memory bandwidth of shared machines drifts, so only the ratio counts.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "libplan/base/files.h"
#include "libplan/execute/host/host_replay.h"
#include "libplan/plan.h"
#include "tests/execute/host/hand_schedule.h"

namespace plan {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

struct FreeBytes {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};

// Bytes for every source and target of a schedule, touched, so that neither side pays page faults.
class BoundBytes {
 public:
  explicit BoundBytes(const ir::Schedule& schedule) : schedule_(schedule) {
    for (const ir::Program& program : schedule.programs) {
      auto& blocks = blocks_.emplace_back();
      for (const ir::Storage& storage : program.storages) {
        blocks.push_back(is_bound(storage) ? touched(storage.size_bytes) : nullptr);
      }
    }
  }

  void bind_all(HostMemory& memory) const {
    for (std::size_t p = 0; p < blocks_.size(); ++p) {
      const ir::Program& program = schedule_.programs[p];
      for (std::size_t i = 0; i < blocks_[p].size(); ++i) {
        if (blocks_[p][i] == nullptr) continue;
        memory.bind(program.rank, StorageId(static_cast<std::int32_t>(i)), bytes(p, i));
      }
    }
  }

  // Of one rank, by position of its program.
  std::vector<std::span<std::byte>> all(std::size_t program, ir::StorageRole role) const {
    std::vector<std::span<std::byte>> found;
    for (std::size_t i = 0; i < blocks_[program].size(); ++i) {
      if (blocks_[program][i] == nullptr) continue;
      if (schedule_.programs[program].storages[i].role == role) found.push_back(bytes(program, i));
    }
    return found;
  }

 private:
  static bool is_bound(const ir::Storage& storage) {
    return !storage.alias_of.valid() && storage.size_bytes > 0 &&
           (storage.role == ir::StorageRole::Source || storage.role == ir::StorageRole::Target);
  }

  static std::unique_ptr<std::byte, FreeBytes> touched(std::int64_t size) {
    const std::size_t whole = (static_cast<std::size_t>(size) + kHugePage - 1) & ~(kHugePage - 1);
    auto* bytes = static_cast<std::byte*>(std::aligned_alloc(kHugePage, whole));
    ::madvise(bytes, whole, MADV_HUGEPAGE);
    std::memset(bytes, 1, whole);
    return std::unique_ptr<std::byte, FreeBytes>(bytes);
  }

  std::span<std::byte> bytes(std::size_t program, std::size_t storage) const {
    return {blocks_[program][storage].get(),
            static_cast<std::size_t>(schedule_.programs[program].storages[storage].size_bytes)};
  }

  const ir::Schedule& schedule_;
  std::vector<std::vector<std::unique_ptr<std::byte, FreeBytes>>> blocks_;
};

// Writes every target from sources, by position, with one memcpy after the other and one thread per
// rank. Returns the bytes written.
class PlainCopy {
 public:
  PlainCopy(const ir::Schedule& schedule, const BoundBytes& bytes) {
    for (std::size_t p = 0; p < schedule.programs.size(); ++p) {
      for (const auto& source : bytes.all(p, ir::StorageRole::Source)) sources_.push_back(source);
      targets_.push_back(bytes.all(p, ir::StorageRole::Target));
    }
  }

  std::int64_t run() const {
    std::vector<std::thread> threads;
    std::int64_t total = 0;
    std::size_t next_source = 0;
    for (const auto& targets : targets_) {
      if (targets.empty()) continue;
      for (const auto& target : targets) total += static_cast<std::int64_t>(target.size());
      threads.emplace_back([this, &targets, next_source] { copy_to(targets, next_source); });
      next_source += targets.size();
    }
    for (std::thread& thread : threads) thread.join();
    return total;
  }

 private:
  void copy_to(const std::vector<std::span<std::byte>>& targets, std::size_t source) const {
    for (const std::span<std::byte> target : targets) {
      for (std::size_t at = 0; at < target.size(); ++source) {
        const std::span<std::byte> from = sources_[source % sources_.size()];
        const std::size_t bytes = std::min(from.size(), target.size() - at);
        std::memcpy(target.data() + at, from.data(), bytes);
        at += bytes;
      }
    }
  }

  std::vector<std::span<std::byte>> sources_;
  std::vector<std::vector<std::span<std::byte>>> targets_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Any schedule with sources and targets will do, a planned one too. Counters: replay and memcpy in
// 10^9 bytes written per second, and their ratio.
void replay_beside_memcpy(benchmark::State& state, const ir::Schedule& schedule) {
  const BoundBytes bytes(schedule);
  const PlainCopy plain(schedule, bytes);
  double replay_seconds = 0;
  double plain_seconds = 0;
  std::int64_t replay_bytes = 0;
  std::int64_t plain_bytes = 0;
  for (auto _ : state) {
    const auto plain_start = std::chrono::steady_clock::now();
    plain_bytes += plain.run();
    plain_seconds += seconds_since(plain_start);
    HostMemory memory(schedule);
    bytes.bind_all(memory);
    memory.allocate_sources();
    const auto replay_start = std::chrono::steady_clock::now();
    const ReplayReport report = replay(schedule, memory);
    const double seconds = seconds_since(replay_start);
    replay_seconds += seconds;
    replay_bytes += report.local_bytes + report.filled_bytes + report.intra_node_bytes +
                    report.inter_node_bytes;
    state.SetIterationTime(seconds);
  }
  const double replay_rate = static_cast<double>(replay_bytes) / replay_seconds * 1e-9;
  const double plain_rate = static_cast<double>(plain_bytes) / plain_seconds * 1e-9;
  state.counters["replay_GB/s"] = replay_rate;
  state.counters["memcpy_GB/s"] = plain_rate;
  state.counters["ratio"] = replay_rate / plain_rate;
}

// 1 GiB of fp32 in three states on `ranks` ranks.
GridJob matrix_on(int ranks, std::int64_t rows, std::int64_t cols) {
  return {.ranks = ranks, .rows = rows, .cols = cols, .lanes = 3, .source_rows = ranks};
}

void register_job(const char* name, const GridJob& job) {
  benchmark::RegisterBenchmark(
      name, [job](benchmark::State& state) { replay_beside_memcpy(state, grid_schedule(job)); })
      ->UseManualTime()
      ->Iterations(7)
      ->Unit(benchmark::kMillisecond);
}

// A planned switch of the full-size training state of Qwen2.5-0.5B (main_param, exp_avg,
// exp_avg_sq; about 6 GB a side), between strategies of one list.
void register_switch(const char* from, const char* to) {
  const auto run = [from, to](benchmark::State& state) {
    const std::string path = BENCH_STRATEGIES;
    const std::vector<Strategy> list = parse_strategy_list(read_file(path), path);
    Request request;
    request.model = read_model("qwen2.5-0.5b", {}).origin_json;
    request.source.strategy = find_strategy(list, from);
    request.target.strategy = find_strategy(list, to);
    request.topology = single_node(8);
    replay_beside_memcpy(state, make_plan(request));
  };
  const std::string name = std::string("qwen2.5-0.5b/") + from + " to " + to;
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Iterations(3)
      ->Unit(benchmark::kMillisecond);
}

void register_all() {
  register_switch("dp8", "tp2-pp2-dp2");
  register_switch("tp2-dp4", "w6-pp3-dp2");
  register_switch("pp4-dp2", "tp2-dp4");
  GridJob whole = matrix_on(8, 8192, 10944);
  whole.target_rows = 8, whole.shift = 1;
  register_job("8 ranks/whole blocks to the next rank", whole);
  GridJob pair = matrix_on(2, 8192, 10944);
  pair.target_rows = 2, pair.shift = 1;
  register_job("2 ranks/whole blocks to the next rank", pair);
  GridJob local = whole;
  local.shift = 0;
  register_job("8 ranks/local copies", local);
  GridJob columns = matrix_on(8, 8192, 10944);
  columns.target_cols = 8;
  register_job("8 ranks/rows to columns/runs of 5472 bytes", columns);
  GridJob narrow = matrix_on(8, 64 * 1024, 1368);
  narrow.target_cols = 8;
  register_job("8 ranks/rows to columns/runs of 684 bytes", narrow);
  GridJob narrowest = matrix_on(8, 1024 * 1024, 88);
  narrowest.target_cols = 8;
  register_job("8 ranks/rows to columns/runs of 44 bytes", narrowest);
  GridJob many = matrix_on(64, 8192, 10944);
  many.target_cols = 64;
  register_job("64 ranks/rows to columns/4032 messages, runs of 684 bytes", many);
}

}  // namespace
}  // namespace plan

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  plan::register_all();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
