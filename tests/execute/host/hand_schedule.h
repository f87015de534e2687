// Schedules put together by hand, op by op, for tests and benchmarks of executors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libplan/schedule/ir.h"

namespace plan {

enum class Moment : std::uint8_t { Before, After };  // of the exchange

class HandSchedule {
 public:
  explicit HandSchedule(int ranks, int ranks_per_node = 1 << 20);

  TensorId tensor(const std::string& name, const Dims& shape, bool padding = false);
  StateId state(const std::string& name);

  // Size: up to the last element of the pieces unless `size_bytes` is more.
  StorageId storage(int rank, ir::StorageRole role, StateId state, Dtype dtype,
                    const std::vector<ir::Piece>& pieces, std::int64_t size_bytes = 0,
                    StorageId alias_of = {});
  StorageId scratch(int rank, std::int64_t size_bytes);

  // One storage for the whole of a box, contiguous.
  StorageId block(int rank, ir::StorageRole role, StateId state, Dtype dtype, TensorId tensor,
                  const Box& box);

  ir::Slice slice(int rank, StorageId storage, std::int64_t offset_bytes, std::int64_t run_bytes,
                  const std::vector<ir::SliceDim>& dims = {}, std::int32_t lanes = 1);

  void allocate(int rank, int window, StorageId storage);
  void free(int rank, int window, StorageId storage);
  void copy(int rank, int window, Moment moment, const ir::Slice& from, const ir::Slice& to);
  void fill(int rank, int window, Moment moment, const ir::Fill& fill);
  void convert(int rank, int window, Moment moment, const ir::Convert& convert);
  void message(int window, int from, const std::vector<ir::Slice>& from_slices, int to,
               const std::vector<ir::Slice>& to_slices);
  // One end alone; `message` numbers are handed out by message() from 0.
  void send(int rank, int window, int to, std::int64_t message,
            const std::vector<ir::Slice>& slices);
  void receive(int rank, int window, int from, std::int64_t message,
               const std::vector<ir::Slice>& slices);

  // The schedule with all that was added; each window depends on the one before it on its rank.
  ir::Schedule finish() const;

 private:
  struct Ops {
    std::vector<ir::Copy> copies;
    std::vector<ir::Fill> fills;
    std::vector<ir::Convert> converts;
  };
  struct End {
    int peer;
    std::int64_t message;
    std::vector<ir::Slice> slices;
  };
  struct Draft {
    std::vector<StorageId> allocate;
    Ops before;
    std::map<int, End> sends;
    std::map<int, End> receives;
    Ops after;
    std::vector<StorageId> free;
  };

  ir::Program& program(int rank) { return schedule_.programs[static_cast<std::size_t>(rank)]; }
  Draft& draft(int rank, int window);
  Ops& ops(int rank, int window, Moment moment);
  static void lay_out(const Draft& draft, int number, ir::Program& program);

  ir::Schedule schedule_;
  std::vector<std::map<int, Draft>> drafts_;  // per rank, by window
  std::int64_t next_message_ = 0;
};

// A matrix cut into a grid of blocks before and another after; block k (row-major) lies on rank k
// before and on rank (k + shift) mod ranks after. In window w rank r sends to rank r + w; window 0
// copies locally. Examples: 8 x 1 -> 8 x 1 with shift 1 moves whole contiguous blocks; 8 x 1 ->
// 1 x 8 moves runs of cols / 8 elements.
struct GridJob {
  int ranks = 2;
  int ranks_per_node = 8;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Dtype dtype = Dtype::Float32;
  int lanes = 1;                         // states of one geometry
  int source_rows = 1, source_cols = 1;  // blocks along each axis; rows x cols <= ranks
  int target_rows = 1, target_cols = 1;
  int shift = 0;
  bool free_sources = false;  // in each rank's last window
};
ir::Schedule grid_schedule(const GridJob& job);

}  // namespace plan
