#include "libplan/execute/host/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string>

#include "libplan/base/error.h"

namespace plan {
namespace {

constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;
constexpr std::int64_t kCacheLineBytes = 64;

std::size_t index_of(StorageId storage) { return static_cast<std::size_t>(storage.value); }

[[noreturn]] void throw_state(const ir::Program& program, StorageId storage, const char* expected,
                              const char* found) {
  throw Error(ErrorCode::Executor, std::string("expected ") + expected + ", found " + found,
              storage_place(program, storage));
}

std::vector<bool> allocated_by_windows(const ir::Program& program) {
  std::vector<bool> allocated(program.storages.size(), false);
  for (const ir::Window& window : program.windows) {
    for (const StorageId id : ir::view(program.storage_ids, window.allocate)) {
      allocated[index_of(id)] = true;
    }
  }
  return allocated;
}

}  // namespace

std::string storage_place(const ir::Program& program, StorageId storage) {
  const std::string& key = program.storages[index_of(storage)].binding_key;
  return "rank " + std::to_string(program.rank.value) + ", storage " +
         std::to_string(storage.value) + (key.empty() ? "" : " (" + key + ")");
}

void HostMemory::Freer::operator()(std::byte* bytes) const {
  ::operator delete (bytes, std::align_val_t{alignment});
}

HostMemory::HostMemory(const ir::Schedule& schedule, HostMemoryOptions options)
    : ranks_(schedule.ranks.size()), options_(options) {
  for (const ir::Program& program : schedule.programs) {
    RankState& state = ranks_[static_cast<std::size_t>(program.rank.value)];
    state.program = &program;
    state.storages.resize(program.storages.size());
  }
}

HostMemory::RankState& HostMemory::rank_state(RankId rank) {
  RankState& state = ranks_.at(static_cast<std::size_t>(rank.value));
  PLAN_CHECK(state.program != nullptr);
  return state;
}

const HostMemory::RankState& HostMemory::rank_state(RankId rank) const {
  const RankState& state = ranks_.at(static_cast<std::size_t>(rank.value));
  PLAN_CHECK(state.program != nullptr);
  return state;
}

void HostMemory::bind(RankId rank, StorageId storage, std::span<std::byte> bytes) {
  RankState& state = rank_state(rank);
  const ir::Storage& wanted = state.program->storages[index_of(storage)];
  if (static_cast<std::int64_t>(bytes.size()) < wanted.size_bytes) {
    throw Error(ErrorCode::Executor,
                "expected at least " + std::to_string(wanted.size_bytes) + " bytes, found " +
                    std::to_string(bytes.size()),
                storage_place(*state.program, storage));
  }
  if (wanted.alias_of.valid()) {
    throw_state(*state.program, storage, "a storage with bytes of its own", "an alias");
  }
  StorageState& now = state.storages[index_of(storage)];
  if (now.live) throw_state(*state.program, storage, "a storage not yet live", "a live one");
  now.bound = bytes.data();
}

void HostMemory::allocate_sources() {
  for (RankState& state : ranks_) {
    if (state.program == nullptr) continue;
    const std::vector<bool> later = allocated_by_windows(*state.program);
    for (std::size_t i = 0; i < state.storages.size(); ++i) {
      const ir::StorageRole role = state.program->storages[i].role;
      const bool from_start =
          role == ir::StorageRole::Source || (role == ir::StorageRole::Opaque && !later[i]);
      if (from_start) make_live(state, StorageId(static_cast<std::int32_t>(i)));
    }
  }
}

// Large blocks begin on a huge page and ask for them: a switch touches each page once, and page
// faults of 4 KiB would cost as much as the copy.
HostMemory::Block HostMemory::new_block(const ir::Storage& storage) {
  const bool large = storage.size_bytes >= 2 * kHugePageBytes;
  const auto alignment = std::bit_ceil(static_cast<std::size_t>(
      std::max({storage.alignment, kCacheLineBytes, large ? kHugePageBytes : 1})));
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(storage.size_bytes, 1));
  void* bytes = ::operator new (size, std::align_val_t{alignment});
  if (large) ::madvise(bytes, size & ~(alignment - 1), MADV_HUGEPAGE);  // a hint; may fail
  return Block(static_cast<std::byte*>(bytes), Freer{alignment});
}

void HostMemory::make_live(RankState& state, StorageId storage) {
  const ir::Storage& wanted = state.program->storages[index_of(storage)];
  StorageState& now = state.storages[index_of(storage)];
  if (now.live) throw_state(*state.program, storage, "a storage not yet live", "a live one");
  if (now.bound == nullptr) {
    try {
      now.owned = new_block(wanted);
    } catch (const std::bad_alloc&) {
      throw Error(ErrorCode::Executor,
                  "expected " + std::to_string(wanted.size_bytes) + " bytes of memory, found less",
                  storage_place(*state.program, storage));
    }
  }
  now.data = now.bound != nullptr ? now.bound : now.owned.get();
  now.live = true;
  now.taken = false;
  const bool is_new =
      wanted.role == ir::StorageRole::Target || wanted.role == ir::StorageRole::Scratch;
  if (is_new && options_.poison && wanted.size_bytes > 0) {
    std::memset(now.data, std::to_integer<int>(kPoison),
                static_cast<std::size_t>(wanted.size_bytes));
  }
  state.current_bytes += wanted.size_bytes;
  state.peak_bytes = std::max(state.peak_bytes, state.current_bytes);
}

void HostMemory::take_over(RankId rank, RankState& state, StorageId alias) {
  const StorageId source = state.program->storages[index_of(alias)].alias_of;
  StorageState& now = state.storages[index_of(alias)];
  if (now.live) throw_state(*state.program, alias, "a storage not yet live", "a live one");
  now.data = live_state(rank, source).data;
  now.live = true;
  state.storages[index_of(source)].taken = true;
}

void HostMemory::allocate(RankId rank, StorageId storage) {
  RankState& state = rank_state(rank);
  if (state.program->storages[index_of(storage)].alias_of.valid()) {
    take_over(rank, state, storage);
  } else {
    make_live(state, storage);
  }
}

void HostMemory::release(RankState& state, StorageId storage) {
  const ir::Storage& wanted = state.program->storages[index_of(storage)];
  StorageState& now = state.storages[index_of(storage)];
  if (wanted.alias_of.valid()) {
    state.storages[index_of(wanted.alias_of)].taken = false;
  } else {
    state.current_bytes -= wanted.size_bytes;
  }
  now.owned.reset();
  now.data = nullptr;
  now.live = false;
}

void HostMemory::free(RankId rank, StorageId storage) {
  RankState& state = rank_state(rank);
  if (live_state(rank, storage).taken) {
    throw_state(*state.program, storage, "a storage that is freed once",
                "a source whose bytes a target took over");
  }
  release(state, storage);
}

void HostMemory::roll_back() {
  for (RankState& state : ranks_) {
    for (std::size_t i = 0; i < state.storages.size(); ++i) {
      const ir::StorageRole role = state.program->storages[i].role;
      const bool is_new = role == ir::StorageRole::Target || role == ir::StorageRole::Scratch;
      if (is_new && state.storages[i].live) {
        release(state, StorageId(static_cast<std::int32_t>(i)));
      }
    }
  }
}

const HostMemory::StorageState& HostMemory::live_state(RankId rank, StorageId storage) const {
  const RankState& state = rank_state(rank);
  const StorageState& now = state.storages[index_of(storage)];
  if (!now.live) throw_state(*state.program, storage, "a live storage", "one that is not");
  return now;
}

bool HostMemory::is_live(RankId rank, StorageId storage) const {
  return rank_state(rank).storages[index_of(storage)].live;
}

std::byte* HostMemory::data(RankId rank, StorageId storage) const {
  return live_state(rank, storage).data;
}

std::span<std::byte> HostMemory::bytes(RankId rank, StorageId storage) const {
  const ir::Storage& wanted = rank_state(rank).program->storages[index_of(storage)];
  return {data(rank, storage), static_cast<std::size_t>(wanted.size_bytes)};
}

std::int64_t HostMemory::current_bytes(RankId rank) const { return rank_state(rank).current_bytes; }

std::int64_t HostMemory::peak_bytes(RankId rank) const { return rank_state(rank).peak_bytes; }

}  // namespace plan
