#include "libplan/cost/payload.h"

#include <algorithm>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"

namespace plan {
namespace {

enum class Content : std::uint8_t { Payload, Padding, Opaque };

// Bytes of one kind, one after the other.
struct Run {
  std::int64_t bytes = 0;
  Content content = Content::Payload;
};

// What a scratch storage holds, by the offset where each run starts.
using ScratchContent = std::map<std::int64_t, Run>;

const ir::Storage& storage_of(const ir::Program& program, const ir::Slice& slice) {
  return program.storages[static_cast<std::size_t>(slice.storage.value)];
}

class ContentTracker {
 public:
  explicit ContentTracker(const ir::Schedule& schedule)
      : schedule_(schedule), scratch_(schedule.programs.size()) {}

  std::vector<Run> read(std::size_t rank, const ir::Slice& slice) const {
    const ir::Program& program = schedule_.programs[rank];
    const ir::Storage& storage = storage_of(program, slice);
    const std::int64_t bytes = ir::num_bytes(program, slice);
    if (storage.role == ir::StorageRole::Opaque) return {{bytes, Content::Opaque}};
    if (storage.role != ir::StorageRole::Scratch) {
      return {{bytes, is_padding(schedule_, program, slice) ? Content::Padding : Content::Payload}};
    }
    return read_scratch(rank, slice);
  }

  // Notes what lands in scratch; other storages need no note.
  void write(std::size_t rank, const ir::Slice& slice, const std::vector<Run>& runs) {
    const ir::Program& program = schedule_.programs[rank];
    if (storage_of(program, slice).role != ir::StorageRole::Scratch) return;
    const std::int64_t lane_bytes = ir::num_bytes(program, slice) / slice.lanes;
    std::size_t at = 0;
    std::int64_t used = 0;
    for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
      ScratchContent& content = scratch_[rank][slice.storage.value + lane];
      std::int64_t offset = slice.offset_bytes;
      const std::int64_t end = checked_add(offset, lane_bytes);
      while (offset < end) {
        const std::int64_t part = std::min(end - offset, runs[at].bytes - used);
        content[offset] = {part, runs[at].content};
        offset += part;
        used += part;
        if (used == runs[at].bytes) {
          ++at;
          used = 0;
        }
      }
    }
  }

 private:
  std::vector<Run> read_scratch(std::size_t rank, const ir::Slice& slice) const {
    std::vector<Run> runs;
    const std::int64_t lane_bytes = ir::num_bytes(schedule_.programs[rank], slice) / slice.lanes;
    for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
      const auto content = scratch_[rank].find(slice.storage.value + lane);
      std::int64_t left = lane_bytes;
      std::int64_t offset = slice.offset_bytes;
      while (left > 0) {
        Run run{left, Content::Payload};
        if (content != scratch_[rank].end()) {
          auto at = content->second.upper_bound(offset);
          if (at != content->second.begin() &&
              std::prev(at)->first + std::prev(at)->second.bytes > offset) {
            --at;
            run = {std::min(left, at->first + at->second.bytes - offset), at->second.content};
          }
        }
        runs.push_back(run);
        left -= run.bytes;
        offset += run.bytes;
      }
    }
    return runs;
  }

  const ir::Schedule& schedule_;
  std::vector<std::map<std::int32_t, ScratchContent>> scratch_;  // per rank, by storage
};

const ir::Window* window_of(const ir::Program& program, std::int32_t number) {
  const auto at =
      std::lower_bound(program.windows.begin(), program.windows.end(), number,
                       [](const ir::Window& w, std::int32_t n) { return w.number < n; });
  return at != program.windows.end() && at->number == number ? &*at : nullptr;
}

class PayloadRun {
 public:
  explicit PayloadRun(const ir::Schedule& schedule) : schedule_(schedule), tracker_(schedule) {}

  std::vector<MessagePayload> run() {
    for (std::int32_t number = 0; number < schedule_.num_windows; ++number) run_window(number);
    std::vector<MessagePayload> list;
    for (const auto& [message, payload] : payloads_) list.push_back(payload);
    return list;
  }

 private:
  void run_window(std::int32_t number) {
    std::map<std::int64_t, std::vector<Run>> on_the_way;
    for (std::size_t rank = 0; rank < schedule_.programs.size(); ++rank) {
      const ir::Program& program = schedule_.programs[rank];
      const ir::Window* window = window_of(program, number);
      if (window == nullptr) continue;
      copy(rank, window->before);
      for (const ir::Send& send : ir::view(program.sends, window->sends)) {
        std::vector<Run>& runs = on_the_way[send.message];
        for (const ir::Slice& slice : ir::view(program.slices, send.slices)) {
          const std::vector<Run> read = tracker_.read(rank, slice);
          runs.insert(runs.end(), read.begin(), read.end());
        }
        count(send.message, {program.rank, send.to_rank, number}, runs);
      }
    }
    for (std::size_t rank = 0; rank < schedule_.programs.size(); ++rank) {
      const ir::Program& program = schedule_.programs[rank];
      const ir::Window* window = window_of(program, number);
      if (window == nullptr) continue;
      for (const ir::Receive& receive : ir::view(program.receives, window->receives)) {
        land(rank, ir::view(program.slices, receive.slices), on_the_way[receive.message]);
      }
      copy(rank, window->after);
    }
  }

  void copy(std::size_t rank, const ir::LocalOps& ops) {
    for (const ir::Copy& copy : ir::view(schedule_.programs[rank].copies, ops.copies)) {
      tracker_.write(rank, copy.to, tracker_.read(rank, copy.from));
    }
  }

  // Hands the message's runs to the slices one after the other.
  void land(std::size_t rank, std::span<const ir::Slice> slices, const std::vector<Run>& runs) {
    std::size_t at = 0;
    std::int64_t used = 0;
    for (const ir::Slice& slice : slices) {
      std::int64_t left = ir::num_bytes(schedule_.programs[rank], slice);
      std::vector<Run> part;
      while (left > 0 && at < runs.size()) {
        const std::int64_t bytes = std::min(left, runs[at].bytes - used);
        part.push_back({bytes, runs[at].content});
        left -= bytes;
        used += bytes;
        if (used == runs[at].bytes) {
          ++at;
          used = 0;
        }
      }
      if (left > 0) part.push_back({left, Content::Payload});  // the sender is not in this part
      tracker_.write(rank, slice, part);
    }
  }

  void count(std::int64_t message, MessagePayload payload, const std::vector<Run>& runs) {
    for (const Run& run : runs) {
      std::int64_t& sum = run.content == Content::Payload   ? payload.bytes
                          : run.content == Content::Padding ? payload.padding_bytes
                                                            : payload.opaque_bytes;
      sum = checked_add(sum, run.bytes);
    }
    payloads_[message] = payload;
  }

  const ir::Schedule& schedule_;
  ContentTracker tracker_;
  std::map<std::int64_t, MessagePayload> payloads_;
};

}  // namespace

bool is_padding(const ir::Schedule& schedule, const ir::Program& program, const ir::Slice& slice) {
  const ir::Storage& storage = storage_of(program, slice);
  const std::int64_t elem = slice.offset_bytes / size_bytes(storage.dtype);
  for (const ir::Piece& piece : ir::view(program.pieces, storage.pieces)) {
    std::int64_t last = piece.offset_elems;
    for (int axis = 0; axis < piece.box.count; ++axis) {
      last += (piece.box[axis].length() - 1) * piece.strides_elems[axis];
    }
    if (elem < piece.offset_elems || elem > last) continue;
    if (schedule.tensors[static_cast<std::size_t>(piece.tensor.value)].padding) return true;
  }
  return false;
}

std::vector<MessagePayload> message_payloads(const ir::Schedule& schedule) {
  return PayloadRun(schedule).run();
}

}  // namespace plan
