#include "tests/execute/host/hand_schedule.h"

#include <algorithm>

namespace plan {
namespace {

template <class T>
ir::Range append(std::vector<T>& array, const std::vector<T>& values) {
  const ir::Range range{static_cast<std::int32_t>(array.size()),
                        static_cast<std::int32_t>(values.size())};
  array.insert(array.end(), values.begin(), values.end());
  return range;
}

std::int64_t end_elems(const ir::Piece& piece) {
  std::int64_t last = piece.offset_elems;
  for (int i = 0; i < piece.box.count; ++i) {
    last += (piece.box[i].length() - 1) * piece.strides_elems[i];
  }
  return last + 1;
}

}  // namespace

HandSchedule::HandSchedule(int ranks, int ranks_per_node)
    : drafts_(static_cast<std::size_t>(ranks)) {
  schedule_.programs.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    program(rank).rank = RankId(rank);
    schedule_.ranks.push_back(
        {RankId(rank), DeviceId(rank), NodeId(rank / ranks_per_node), true, true, -1});
  }
}

TensorId HandSchedule::tensor(const std::string& name, const Dims& shape, bool padding) {
  schedule_.tensors.push_back({name, shape, padding});
  return TensorId(static_cast<std::int32_t>(schedule_.tensors.size()) - 1);
}

StateId HandSchedule::state(const std::string& name) {
  schedule_.states.push_back(name);
  return StateId(static_cast<std::int32_t>(schedule_.states.size()) - 1);
}

StorageId HandSchedule::storage(int rank, ir::StorageRole role, StateId state, Dtype dtype,
                                const std::vector<ir::Piece>& pieces, std::int64_t size,
                                StorageId alias_of) {
  ir::Storage storage;
  storage.role = role;
  storage.dtype = dtype;
  storage.size_bytes = size;
  for (const ir::Piece& piece : pieces) {
    storage.size_bytes = std::max(storage.size_bytes, end_elems(piece) * size_bytes(dtype));
  }
  storage.state = state;
  storage.alias_of = alias_of;
  storage.pieces = append(program(rank).pieces, pieces);
  const auto id = static_cast<std::int32_t>(program(rank).storages.size());
  if (role != ir::StorageRole::Scratch) storage.binding_key = "storage" + std::to_string(id);
  program(rank).storages.push_back(storage);
  return StorageId(id);
}

StorageId HandSchedule::scratch(int rank, std::int64_t size) {
  return storage(rank, ir::StorageRole::Scratch, {}, Dtype::UInt8, {}, size);
}

StorageId HandSchedule::block(int rank, ir::StorageRole role, StateId state, Dtype dtype,
                              TensorId tensor, const Box& box) {
  return storage(rank, role, state, dtype, {{tensor, box, 0, contiguous_strides(box.extents())}});
}

ir::Slice HandSchedule::slice(int rank, StorageId storage, std::int64_t offset_bytes,
                              std::int64_t run_bytes, const std::vector<ir::SliceDim>& dims,
                              std::int32_t lanes) {
  return {storage, lanes, offset_bytes, run_bytes, append(program(rank).slice_dims, dims)};
}

HandSchedule::Draft& HandSchedule::draft(int rank, int window) {
  schedule_.num_windows = std::max(schedule_.num_windows, window + 1);
  return drafts_[static_cast<std::size_t>(rank)][window];
}

HandSchedule::Ops& HandSchedule::ops(int rank, int window, Moment moment) {
  Draft& now = draft(rank, window);
  return moment == Moment::Before ? now.before : now.after;
}

void HandSchedule::allocate(int rank, int window, StorageId storage) {
  draft(rank, window).allocate.push_back(storage);
}

void HandSchedule::free(int rank, int window, StorageId storage) {
  draft(rank, window).free.push_back(storage);
}

void HandSchedule::copy(int rank, int window, Moment moment, const ir::Slice& from,
                        const ir::Slice& to) {
  ops(rank, window, moment).copies.push_back({from, to});
}

void HandSchedule::fill(int rank, int window, Moment moment, const ir::Fill& fill) {
  ops(rank, window, moment).fills.push_back(fill);
}

void HandSchedule::convert(int rank, int window, Moment moment, const ir::Convert& convert) {
  ops(rank, window, moment).converts.push_back(convert);
}

void HandSchedule::send(int rank, int window, int to, std::int64_t message,
                        const std::vector<ir::Slice>& slices) {
  draft(rank, window).sends[to] = {to, message, slices};
}

void HandSchedule::receive(int rank, int window, int from, std::int64_t message,
                           const std::vector<ir::Slice>& slices) {
  draft(rank, window).receives[from] = {from, message, slices};
}

void HandSchedule::message(int window, int from, const std::vector<ir::Slice>& from_slices, int to,
                           const std::vector<ir::Slice>& to_slices) {
  send(from, window, to, next_message_, from_slices);
  receive(to, window, from, next_message_, to_slices);
  ++next_message_;
}

void HandSchedule::lay_out(const Draft& draft, int number, ir::Program& program) {
  const auto place = [&](const Ops& ops) {
    return ir::LocalOps{append(program.copies, ops.copies), append(program.fills, ops.fills),
                        append(program.converts, ops.converts)};
  };
  ir::Window window;
  window.number = number;
  if (!program.windows.empty()) {
    window.depends_on = append(program.window_numbers, {program.windows.back().number});
  }
  window.allocate = append(program.storage_ids, draft.allocate);
  window.before = place(draft.before);
  std::vector<ir::Send> sends;
  for (const auto& [peer, end] : draft.sends) {
    sends.push_back({RankId(peer), end.message, append(program.slices, end.slices)});
  }
  window.sends = append(program.sends, sends);
  std::vector<ir::Receive> receives;
  for (const auto& [peer, end] : draft.receives) {
    receives.push_back({RankId(peer), end.message, append(program.slices, end.slices)});
  }
  window.receives = append(program.receives, receives);
  window.after = place(draft.after);
  window.free = append(program.storage_ids, draft.free);
  program.windows.push_back(window);
}

ir::Schedule HandSchedule::finish() const {
  ir::Schedule schedule = schedule_;
  for (std::size_t rank = 0; rank < drafts_.size(); ++rank) {
    for (const auto& [number, draft] : drafts_[rank]) {
      lay_out(draft, number, schedule.programs[rank]);
    }
  }
  return schedule;
}

namespace {

// Block `cell` (row-major) of a matrix cut evenly into row_blocks x col_blocks.
Box grid_box(const GridJob& job, int row_blocks, int col_blocks, int cell) {
  const auto cut = [](std::int64_t extent, int blocks, int index) {
    return Interval{extent * index / blocks, extent * (index + 1) / blocks};
  };
  return {cut(job.rows, row_blocks, cell / col_blocks),
          cut(job.cols, col_blocks, cell % col_blocks)};
}

// The storages of one side: lane 0 of each rank's block; invalid where a rank has none.
struct GridSide {
  std::vector<StorageId> storages;
  std::vector<Box> boxes;
};

// The part of a rank's block as a slice over all lanes.
ir::Slice part_of(HandSchedule& hand, const GridJob& job, const GridSide& side, int rank,
                  const Box& part) {
  const Box& block = side.boxes[static_cast<std::size_t>(rank)];
  const std::int64_t width = size_bytes(job.dtype);
  const std::int64_t row_bytes = block[1].length() * width;
  return hand.slice(
      rank, side.storages[static_cast<std::size_t>(rank)],
      (part[0].begin - block[0].begin) * row_bytes + (part[1].begin - block[1].begin) * width,
      part[1].length() * width, {{part[0].length(), row_bytes}}, job.lanes);
}

GridSide add_side(HandSchedule& hand, const GridJob& job, ir::StorageRole role, TensorId tensor,
                  const std::vector<StateId>& states) {
  const bool is_source = role == ir::StorageRole::Source;
  const int row_blocks = is_source ? job.source_rows : job.target_rows;
  const int col_blocks = is_source ? job.source_cols : job.target_cols;
  GridSide side{std::vector<StorageId>(static_cast<std::size_t>(job.ranks)),
                std::vector<Box>(static_cast<std::size_t>(job.ranks))};
  for (int cell = 0; cell < row_blocks * col_blocks; ++cell) {
    const int rank = is_source ? cell : (cell + job.shift) % job.ranks;
    const Box box = grid_box(job, row_blocks, col_blocks, cell);
    side.boxes[static_cast<std::size_t>(rank)] = box;
    for (const StateId state : states) {
      const StorageId id = hand.block(rank, role, state, job.dtype, tensor, box);
      StorageId& first = side.storages[static_cast<std::size_t>(rank)];
      if (!first.valid()) first = id;
      if (!is_source) hand.allocate(rank, 0, id);
    }
  }
  return side;
}

}  // namespace

ir::Schedule grid_schedule(const GridJob& job) {
  HandSchedule hand(job.ranks, job.ranks_per_node);
  const TensorId tensor = hand.tensor("matrix", {job.rows, job.cols});
  std::vector<StateId> states;
  for (int lane = 0; lane < job.lanes; ++lane) {
    states.push_back(hand.state("state" + std::to_string(lane)));
  }
  const GridSide source = add_side(hand, job, ir::StorageRole::Source, tensor, states);
  const GridSide target = add_side(hand, job, ir::StorageRole::Target, tensor, states);
  for (int step = 0; step < job.ranks; ++step) {
    for (int from = 0; from < job.ranks; ++from) {
      const int to = (from + step) % job.ranks;
      if (!source.storages[static_cast<std::size_t>(from)].valid() ||
          !target.storages[static_cast<std::size_t>(to)].valid()) {
        continue;
      }
      const Box part = intersect(source.boxes[static_cast<std::size_t>(from)],
                                 target.boxes[static_cast<std::size_t>(to)]);
      if (part.empty()) continue;
      const ir::Slice read = part_of(hand, job, source, from, part);
      const ir::Slice write = part_of(hand, job, target, to, part);
      if (step == 0) {
        hand.copy(from, 0, Moment::After, read, write);
      } else {
        hand.message(step, from, {read}, to, {write});
      }
    }
  }
  if (job.free_sources) {
    for (int rank = 0; rank < job.source_rows * job.source_cols; ++rank) {
      for (int lane = 0; lane < job.lanes; ++lane) {
        const StorageId first = source.storages[static_cast<std::size_t>(rank)];
        hand.free(rank, job.ranks - 1, StorageId(first.value + lane));
      }
    }
  }
  return hand.finish();
}

}  // namespace plan
