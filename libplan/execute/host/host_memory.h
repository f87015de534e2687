// The storages of a schedule's ranks in this process: which are live, where they lie, and how many
// bytes each rank holds.
//
// Sources exist from construction on, bound to the caller's bytes or allocated here; targets and
// scratch exist from their window on. An alias shows its source's bytes under the target's id.
// What is read or written under one rank belongs to that rank's thread; different ranks may be used
// by different threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libplan/schedule/ir.h"

namespace plan {

struct HostMemoryOptions {
  // Overwrites every new target and scratch with kPoison, so that a byte which the schedule forgets
  // to write is found. Costs one pass over them.
  bool poison = false;
};

class HostMemory {
 public:
  static constexpr std::byte kPoison{0xa5};

  // Keeps a reference to `schedule`, which must have passed schedule/validate and outlive this.
  explicit HostMemory(const ir::Schedule& schedule, HostMemoryOptions options = {});

  // Uses the caller's bytes for a storage, at least size_bytes of them, which must stay valid until
  // the storage is freed or this dies. For a source before allocate_sources, for a target or
  // scratch before its window. Error(Executor) for too few bytes, for an alias, and for a storage
  // that is already live.
  void bind(RankId rank, StorageId storage, std::span<std::byte> bytes);

  // Makes every source live, and every opaque storage that no window allocates. The bytes of those
  // not bound are allocated and undefined.
  void allocate_sources();

  // Makes a target or scratch live; frees any storage. Error(Executor) if it is live already, or
  // not live; for an alias, if its source is not live.
  void allocate(RankId rank, StorageId storage);
  void free(RankId rank, StorageId storage);

  // Back to before the first window as far as possible: frees all targets and scratch. Aliased
  // sources are sources again; sources that the schedule freed stay freed.
  void roll_back();

  bool is_live(RankId rank, StorageId storage) const;

  // First byte of a live storage. Error(Executor) if it is not live.
  std::byte* data(RankId rank, StorageId storage) const;
  std::span<std::byte> bytes(RankId rank, StorageId storage) const;

  std::int64_t current_bytes(RankId rank) const;
  std::int64_t peak_bytes(RankId rank) const;  // since allocate_sources

 private:
  struct Freer {
    std::size_t alignment;
    void operator()(std::byte* bytes) const;
  };
  using Block = std::unique_ptr<std::byte, Freer>;
  struct StorageState {
    std::byte* data = nullptr;   // where the bytes lie while live
    std::byte* bound = nullptr;  // the caller's
    Block owned;
    bool live = false;
    bool taken = false;  // a source whose bytes an alias took over
  };
  struct RankState {
    const ir::Program* program = nullptr;
    std::vector<StorageState> storages;
    std::int64_t current_bytes = 0;
    std::int64_t peak_bytes = 0;
  };

  static Block new_block(const ir::Storage& storage);
  RankState& rank_state(RankId rank);
  const RankState& rank_state(RankId rank) const;
  const StorageState& live_state(RankId rank, StorageId storage) const;
  void make_live(RankState& state, StorageId storage);
  void take_over(RankId rank, RankState& state, StorageId alias);
  void release(RankState& state, StorageId storage);

  std::vector<RankState> ranks_;
  HostMemoryOptions options_;
};

// "rank 3, storage 7 (layers.0.weight)": the place of an error.
std::string storage_place(const ir::Program& program, StorageId storage);

}  // namespace plan
