#include "libplan/execute/host/oracle.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "libplan/base/error.h"

namespace plan {
namespace {

// A run of at most OracleValues::kBlock elements of a piece: logical indices first, first +
// flat_stride, ...; bytes at data, data + byte_stride, ...
struct ElementRun {
  std::int64_t first = 0;
  std::int64_t flat_stride = 1;
  std::int64_t count = 0;
  std::byte* data = nullptr;
  std::int64_t byte_stride = 0;
};

// One dimension of a walk over a piece's elements.
struct WalkDim {
  std::int64_t extent;
  std::int64_t flat_stride;
  std::int64_t byte_stride;
};

// The piece's dimensions, outermost first, where neighbours that step evenly are one.
std::vector<WalkDim> walk_dims(const ir::Piece& piece, const Dims& shape, std::int64_t width) {
  const Dims flat_strides = contiguous_strides(shape);
  std::vector<WalkDim> dims;
  for (int i = 0; i < piece.box.count; ++i) {
    const WalkDim dim{piece.box[i].length(), flat_strides[i], piece.strides_elems[i] * width};
    if (dim.extent == 1) continue;
    if (!dims.empty() && dims.back().flat_stride == dim.extent * dim.flat_stride &&
        dims.back().byte_stride == dim.extent * dim.byte_stride) {
      dims.back() = {dims.back().extent * dim.extent, dim.flat_stride, dim.byte_stride};
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, 1, width});
  return dims;
}

// Calls visit(ElementRun) for all elements of a piece whose storage begins at `storage`.
template <class Visit>
void for_each_run(const ir::Piece& piece, const Dims& shape, std::int64_t width, std::byte* storage,
                  const Visit& visit) {
  const std::vector<WalkDim> dims = walk_dims(piece, shape, width);
  const WalkDim& inner = dims.back();
  std::vector<std::int64_t> counters(dims.size() - 1, 0);
  std::int64_t flat = flat_index_of_first(shape, piece.box);
  std::int64_t offset = piece.offset_elems * width;
  while (true) {
    for (std::int64_t i = 0; i < inner.extent; i += OracleValues::kBlock) {
      visit(ElementRun{flat + i * inner.flat_stride, inner.flat_stride,
                       std::min(OracleValues::kBlock, inner.extent - i),
                       storage + offset + i * inner.byte_stride, inner.byte_stride});
    }
    std::size_t axis = counters.size();
    for (; axis > 0; --axis) {
      const WalkDim& dim = dims[axis - 1];
      flat += dim.flat_stride;
      offset += dim.byte_stride;
      if (++counters[axis - 1] < dim.extent) break;
      flat -= dim.extent * dim.flat_stride;
      offset -= dim.extent * dim.byte_stride;
      counters[axis - 1] = 0;
    }
    if (axis == 0) return;
  }
}

// A storage to fill or to check.
struct Job {
  const ir::Program* program;
  StorageId id;
  const ir::Storage& storage() const {
    return program->storages[static_cast<std::size_t>(id.value)];
  }
};

std::vector<Job> jobs_of(const ir::Schedule& schedule, ir::StorageRole role) {
  std::vector<Job> jobs;
  for (const ir::Program& program : schedule.programs) {
    for (std::size_t i = 0; i < program.storages.size(); ++i) {
      if (program.storages[i].role != role) continue;
      jobs.push_back({&program, StorageId(static_cast<std::int32_t>(i))});
    }
  }
  return jobs;
}

// Calls work(i) for i in [0, count) on all cores, in any order; throws the first exception met.
template <class Work>
void for_each_parallel(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto loop = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;
    }
  };
  std::vector<std::thread> threads;
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, count); ++i) threads.emplace_back(loop);
  loop();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

const Dims& shape_of(const ir::Schedule& schedule, const ir::Piece& piece) {
  return schedule.tensors[static_cast<std::size_t>(piece.tensor.value)].shape;
}

void fill_storage(const ir::Schedule& schedule, const Job& job, const OracleValues& values,
                  std::byte* data) {
  const ir::Storage& storage = job.storage();
  const std::int64_t width = size_bytes(storage.dtype);
  for (const ir::Piece& piece : ir::view(job.program->pieces, storage.pieces)) {
    const OracleValues::Stream stream = values.stream(piece.tensor, storage.state, storage.dtype);
    for_each_run(piece, shape_of(schedule, piece), width, data, [&](const ElementRun& run) {
      if (run.byte_stride == width) {
        OracleValues::write(stream, run.first, run.flat_stride, run.count, run.data);
        return;
      }
      std::byte block[OracleValues::kBlock * 8];
      OracleValues::write(stream, run.first, run.flat_stride, run.count, block);
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::memcpy(run.data + i * run.byte_stride, block + i * width,
                    static_cast<std::size_t>(width));
      }
    });
  }
}

std::uint64_t load(const std::byte* from, std::int64_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, from, static_cast<std::size_t>(width));
  return value;
}

// Compares one storage's pieces with the values.
class StorageCheck {
 public:
  StorageCheck(const ir::Schedule& schedule, const Job& job, const OracleValues& values)
      : schedule_(schedule), job_(job), values_(values) {}

  CheckReport run(std::byte* data) {
    const ir::Storage& storage = job_.storage();
    const std::int64_t width = size_bytes(storage.dtype);
    for (const ir::Piece& piece : ir::view(job_.program->pieces, storage.pieces)) {
      const OracleValues::Stream stream =
          values_.stream(piece.tensor, storage.state, storage.dtype);
      for_each_run(piece, shape_of(schedule_, piece), width, data,
                   [&](const ElementRun& run) { compare(run, stream, piece, width); });
    }
    return std::move(report_);
  }

 private:
  void compare(const ElementRun& run, const OracleValues::Stream& stream, const ir::Piece& piece,
               std::int64_t width) {
    std::byte expected[OracleValues::kBlock * 8];
    OracleValues::write(stream, run.first, run.flat_stride, run.count, expected);
    report_.elements += run.count;
    const auto run_bytes = static_cast<std::size_t>(run.count * width);
    if (run.byte_stride == width && std::memcmp(run.data, expected, run_bytes) == 0) return;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::uint64_t wanted = load(expected + i * width, width);
      const std::uint64_t found = load(run.data + i * run.byte_stride, width);
      if (wanted != found) note(piece, run.first + i * run.flat_stride, wanted, found);
    }
  }

  void note(const ir::Piece& piece, std::int64_t flat, std::uint64_t expected,
            std::uint64_t found) {
    ++report_.mismatches;
    if (report_.first.size() >= CheckReport::kMostKept) return;
    const ir::Storage& storage = job_.storage();
    const ir::TensorEntry& tensor = schedule_.tensors[static_cast<std::size_t>(piece.tensor.value)];
    report_.first.push_back({job_.program->rank, job_.id, storage.binding_key, tensor.name,
                             schedule_.states[static_cast<std::size_t>(storage.state.value)],
                             coordinates_of(tensor.shape, flat), expected, found});
  }

  const ir::Schedule& schedule_;
  const Job& job_;
  const OracleValues& values_;
  CheckReport report_;
};

void add(CheckReport& total, CheckReport part) {
  total.elements += part.elements;
  total.mismatches += part.mismatches;
  for (Mismatch& mismatch : part.first) {
    if (total.first.size() < CheckReport::kMostKept) total.first.push_back(std::move(mismatch));
  }
  for (std::string& place : part.missing) total.missing.push_back(std::move(place));
}

CheckReport check_storages(const ir::Schedule& schedule, const HostMemory& memory,
                           const std::vector<Job>& jobs, const OracleValues& values) {
  std::vector<CheckReport> parts(jobs.size());
  for_each_parallel(jobs.size(), [&](std::size_t i) {
    const Job& job = jobs[i];
    if (memory.is_live(job.program->rank, job.id)) {
      parts[i] = StorageCheck(schedule, job, values).run(memory.data(job.program->rank, job.id));
    } else {
      parts[i].missing.push_back(storage_place(*job.program, job.id));
    }
  });
  CheckReport total;
  for (CheckReport& part : parts) add(total, std::move(part));
  return total;
}

std::string hex(std::uint64_t value) {
  char text[19];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

std::string to_string(const CheckReport& report) {
  std::string text = std::to_string(report.elements) + " elements compared, " +
                     std::to_string(report.mismatches) + " differ, " +
                     std::to_string(report.missing.size()) + " target storages missing";
  for (const Mismatch& mismatch : report.first) {
    text += "\n  rank " + std::to_string(mismatch.rank.value) + ", storage " +
            std::to_string(mismatch.storage.value) + " (" + mismatch.binding_key + "), tensor " +
            mismatch.tensor + ", state " + mismatch.state + ", element " +
            to_string(mismatch.index) + ": expected " + hex(mismatch.expected) + ", found " +
            hex(mismatch.found);
  }
  for (const std::string& place : report.missing) text += "\n  missing: " + place;
  return text;
}

void fill_sources(const ir::Schedule& schedule, HostMemory& memory, std::uint64_t seed,
                  const OracleRules& rules) {
  const OracleValues values(schedule, seed, rules);
  const std::vector<Job> jobs = jobs_of(schedule, ir::StorageRole::Source);
  for_each_parallel(jobs.size(), [&](std::size_t i) {
    const Job& job = jobs[i];
    if (!memory.is_live(job.program->rank, job.id)) return;
    fill_storage(schedule, job, values, memory.data(job.program->rank, job.id));
  });
}

CheckReport check_targets(const ir::Schedule& schedule, const HostMemory& memory,
                          std::uint64_t seed, const OracleRules& rules) {
  const OracleValues values(schedule, seed, rules);
  return check_storages(schedule, memory, jobs_of(schedule, ir::StorageRole::Target), values);
}

CheckReport check_sources(const ir::Schedule& schedule, const HostMemory& memory,
                          std::uint64_t seed, const OracleRules& rules) {
  const OracleValues values(schedule, seed, rules);
  std::vector<Job> jobs = jobs_of(schedule, ir::StorageRole::Source);
  std::erase_if(jobs, [&](const Job& job) { return !memory.is_live(job.program->rank, job.id); });
  return check_storages(schedule, memory, jobs, values);
}

CheckedReplay replay_checked(const ir::Schedule& schedule, const ReplayOptions& options,
                             const OracleRules& rules, const std::vector<std::uint64_t>& seeds) {
  CheckedReplay result;
  for (const std::uint64_t seed : seeds) {
    HostMemory memory(schedule, {.poison = true});
    memory.allocate_sources();
    fill_sources(schedule, memory, seed, rules);
    result.replay = replay(schedule, memory, options);
    add(result.targets, check_targets(schedule, memory, seed, rules));
    add(result.sources, check_sources(schedule, memory, seed, rules));
  }
  return result;
}

}  // namespace plan
