#include "tests/verify/interpreter.h"

#include <algorithm>
#include <map>
#include <set>

#include <stdexcept>
#include <vector>

namespace plan::verify::testing {
namespace {

struct Fault {
  std::string what;
};

void require(bool condition, const std::string& what) {
  if (!condition) throw Fault{what};
}

enum class Kind : std::uint8_t { None, Element, Fill };

// What one byte holds.
struct Byte {
  Kind kind = Kind::None;
  std::int32_t tensor = -1;
  std::int32_t state = -1;
  std::vector<std::int64_t> index;
  Dtype dtype = Dtype::UInt8;
  std::int64_t part = 0;  // byte of the element
  bool rounded = false;
  friend bool operator==(const Byte&, const Byte&) = default;
};

struct Memory {
  std::vector<Byte> bytes;
  std::vector<Byte> expected;  // of sources and targets: what belongs there
  bool live = false;
  bool freed = false;
  std::vector<int> writes;
  std::vector<int> last_write;  // phase number, -1: none
  std::vector<int> last_read;
};

struct Address {
  std::int32_t storage;
  std::int64_t offset;
};

template <class T>
std::vector<T> part_of(const std::vector<T>& array, ir::Range range) {
  require(range.first >= 0 && range.count >= 0 &&
              std::int64_t{range.first} + range.count <= static_cast<std::int64_t>(array.size()),
          "range");
  return {array.begin() + range.first, array.begin() + range.first + range.count};
}

class Machine {
 public:
  Machine(const ir::Schedule& schedule, const ir::Program& program)
      : schedule_(schedule), program_(program) {
    for (const ir::Storage& storage : program.storages) memories_.push_back(start(storage));
    for (std::size_t i = 0; i < memories_.size(); ++i) {
      if (program.storages[i].role == ir::StorageRole::Target &&
          program.storages[i].alias_of.valid()) {
        taken_[program.storages[i].alias_of.value] = static_cast<std::int32_t>(i);
      }
    }
  }

  const ir::Program& program() const { return program_; }

  void allocate(StorageId id) {
    Memory& memory = memories_.at(index(id));
    const ir::Storage& storage = program_.storages[index(id)];
    require(!memory.live && !memory.freed, "allocated twice");
    memory.live = true;
    if (storage.alias_of.valid()) {
      const Memory& source = memories_.at(index(storage.alias_of));
      require(source.live, "alias of a freed source");
      require(source.expected == memory.expected, "alias of another source");
      memory.bytes = memory.expected;
    }
  }

  void free(StorageId id) {
    Memory& memory = memories_.at(index(id));
    require(memory.live, "freed while not live");
    memory.live = false;
    memory.freed = true;
    const ir::Storage& storage = program_.storages[index(id)];
    require(storage.role != ir::StorageRole::Target, "target freed");
    require(storage.role != ir::StorageRole::Source, "source freed before commit");
  }

  // Addresses of the slice's bytes, in order.
  std::vector<Address> expand(const ir::Slice& slice) const {
    require(slice.lanes >= 1 && slice.offset_bytes >= 0 && slice.run_bytes >= 0, "slice numbers");
    const auto dims = part_of(program_.slice_dims, slice.dims);
    std::vector<std::int64_t> starts = {slice.offset_bytes};
    auto count = static_cast<long double>(slice.run_bytes);
    long double end = static_cast<long double>(slice.offset_bytes) + slice.run_bytes;
    for (const ir::SliceDim& dim : dims) {
      require(dim.count >= 0 && dim.stride_bytes >= 0, "dimension");
      count *= static_cast<long double>(dim.count);
      end += static_cast<long double>(std::max<std::int64_t>(dim.count, 1) - 1) *
             static_cast<long double>(dim.stride_bytes);
    }
    constexpr long double kLimit = 9.2e18L;
    require(count * slice.lanes < kLimit && end < kLimit, "overflow");
    require(count == 0 || (count * slice.lanes < 100000 && end < 100000), "too large");
    std::vector<Address> addresses;
    if (count == 0) {
      for (std::int32_t lane = 0; lane < slice.lanes; ++lane) check_storage(slice, lane);
      return addresses;
    }
    for (const ir::SliceDim& dim : dims) {
      std::vector<std::int64_t> next;
      for (const std::int64_t start : starts) {
        for (std::int64_t i = 0; i < dim.count; ++i) next.push_back(start + i * dim.stride_bytes);
      }
      starts = next;
      if (dim.count > 1) check_unit(slice, dim.stride_bytes);
    }
    check_unit(slice, slice.offset_bytes);
    check_unit(slice, slice.run_bytes);
    for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
      check_storage(slice, lane);
      const std::int32_t id = slice.storage.value + lane;
      for (const std::int64_t start : starts) {
        for (std::int64_t i = 0; i < slice.run_bytes; ++i) {
          require(static_cast<std::int64_t>(count) <=
                      program_.storages[static_cast<std::size_t>(id)].size_bytes,
                  "repeats");
          require(start + i < program_.storages[static_cast<std::size_t>(id)].size_bytes, "bounds");
          addresses.push_back({id, start + i});
        }
      }
    }
    return addresses;
  }

  std::vector<Byte> read(const ir::Slice& slice, int phase) {
    std::vector<Byte> bytes;
    for (const Address& address : expand(slice)) {
      Memory& memory = memories_.at(static_cast<std::size_t>(address.storage));
      const auto at = static_cast<std::size_t>(address.offset);
      require(memory.bytes[at].kind != Kind::None, "read of nothing");
      require(memory.last_write[at] != phase, "read and write in one phase");
      memory.last_read[at] = phase;
      bytes.push_back(memory.bytes[at]);
    }
    return bytes;
  }

  void write(const std::vector<Address>& to, const std::vector<Byte>& bytes, int phase) {
    require(to.size() == bytes.size(), "sizes");
    for (std::size_t i = 0; i < to.size(); ++i) {
      Memory& memory = memories_.at(static_cast<std::size_t>(to[i].storage));
      const ir::Storage& storage = program_.storages[static_cast<std::size_t>(to[i].storage)];
      const auto at = static_cast<std::size_t>(to[i].offset);
      require(memory.last_write[at] != phase && memory.last_read[at] != phase,
              "two ops of one phase");
      memory.last_write[at] = phase;
      require(storage.role != ir::StorageRole::Source, "source overwritten");
      if (storage.role == ir::StorageRole::Target) {
        require(!storage.alias_of.valid(), "source overwritten through its alias");
        require(memory.expected[at].kind != Kind::None || bytes[i].kind == Kind::Fill,
                "no state there");
        require(memory.expected[at].kind == Kind::None || ++memory.writes[at] == 1,
                "written twice");
      }
      memory.bytes[at] = bytes[i];
    }
  }

  void check_end() const {
    for (std::size_t s = 0; s < memories_.size(); ++s) {
      if (program_.storages[s].role != ir::StorageRole::Target) continue;
      require(memories_[s].live, "target not live at the end");
      for (std::size_t i = 0; i < memories_[s].bytes.size(); ++i) {
        check_byte(memories_[s].bytes[i], memories_[s].expected[i]);
      }
    }
  }

  std::vector<Byte> convert(std::vector<Byte> bytes, const ir::Convert& op) const {
    const auto from = static_cast<std::size_t>(size_bytes(op.from_dtype));
    const std::int64_t to = size_bytes(op.to_dtype);
    require(bytes.size() % from == 0, "convert size");
    std::vector<Byte> result;
    for (std::size_t i = 0; i < bytes.size(); i += from) {
      for (std::size_t k = 0; k < from; ++k) {
        Byte whole = bytes[i];
        require(whole.kind == Kind::Element && whole.dtype == op.from_dtype, "convert dtype");
        whole.part = static_cast<std::int64_t>(k);
        require(bytes[i + k] == whole, "convert of torn elements");
      }
      require(!bytes[i].rounded || op.from_dtype == op.to_dtype, "rounded twice");
      const bool widens = op.from_dtype == op.to_dtype || op.to_dtype == Dtype::Float64 ||
                          (op.to_dtype == Dtype::Float32 &&
                           (op.from_dtype == Dtype::BFloat16 || op.from_dtype == Dtype::Float16));
      for (std::int64_t k = 0; k < to; ++k) {
        result.push_back(bytes[i]);
        result.back().dtype = op.to_dtype;
        result.back().part = k;
        result.back().rounded = result.back().rounded || !widens;
      }
    }
    return result;
  }

 private:
  static std::size_t index(StorageId id) { return static_cast<std::size_t>(id.value); }

  void check_storage(const ir::Slice& slice, std::int32_t lane) const {
    const std::int64_t id = std::int64_t{slice.storage.value} + lane;
    require(id >= 0 && id < static_cast<std::int64_t>(memories_.size()), "storage id");
    require(memories_[static_cast<std::size_t>(id)].live, "storage not live");
  }

  void check_unit(const ir::Slice& slice, std::int64_t number) const {
    for (std::int32_t lane = 0; lane < slice.lanes; ++lane) {
      check_storage(slice, lane);
      const auto id = static_cast<std::size_t>(slice.storage.value + lane);
      require(number % size_bytes(program_.storages[id].dtype) == 0, "cut element");
    }
  }

  Memory start(const ir::Storage& storage) const {
    Memory memory;
    // Changed sizes may be huge; no slice of these tests reaches beyond 100000 bytes.
    const auto size =
        static_cast<std::size_t>(std::clamp<std::int64_t>(storage.size_bytes, 0, 100000));
    memory.bytes.resize(size);
    memory.expected.resize(size);
    memory.writes.assign(size, 0);
    memory.last_write.assign(size, -1);
    memory.last_read.assign(size, -1);
    for (const ir::Piece& piece : part_of(program_.pieces, storage.pieces)) {
      expect(storage, piece, 0, piece.offset_elems, {}, memory);
    }
    if (storage.role == ir::StorageRole::Source) {
      memory.live = true;
      memory.bytes = memory.expected;
    }
    return memory;
  }

  void expect(const ir::Storage& storage, const ir::Piece& piece, int axis, std::int64_t address,
              std::vector<std::int64_t> index, Memory& memory) const {
    if (axis == piece.box.count) {
      const std::int64_t size = size_bytes(storage.dtype);
      for (std::int64_t k = 0; k < size; ++k) {
        memory.expected.at(static_cast<std::size_t>(address * size + k)) = {
            Kind::Element, piece.tensor.value, storage.state.value, index, storage.dtype, k, false};
      }
      return;
    }
    for (std::int64_t i = piece.box[axis].begin; i < piece.box[axis].end; ++i) {
      std::vector<std::int64_t> next = index;
      next.push_back(i);
      expect(storage, piece, axis + 1,
             address + (i - piece.box[axis].begin) * piece.strides_elems[axis], next, memory);
    }
  }

  void check_byte(const Byte& found, const Byte& expected) const {
    if (expected.kind == Kind::None) return;
    const ir::TensorEntry& tensor = schedule_.tensors.at(static_cast<std::size_t>(expected.tensor));
    require(found.kind != Kind::None, "never written");
    if (found.kind == Kind::Fill) {
      require(tensor.padding, "filled");
      return;
    }
    const auto& states = schedule_.states;
    const bool derived = states.at(static_cast<std::size_t>(found.state)) == "main_param" &&
                         states.at(static_cast<std::size_t>(expected.state)) == "param";
    require(found.dtype == expected.dtype && found.part == expected.part, "bytes of an element");
    require(found.state == expected.state || derived, "state");
    if (found.tensor == expected.tensor && found.index == expected.index) return;
    const ir::TensorEntry& other = schedule_.tensors.at(static_cast<std::size_t>(found.tensor));
    require(tensor.padding && tensor.name == other.name + ".padding", "element");
    require(found.index[0] == other.shape[0] - 1, "not the last row");
    require(std::equal(found.index.begin() + 1, found.index.end(), expected.index.begin() + 1,
                       expected.index.end()),
            "column");
  }

  const ir::Schedule& schedule_;
  const ir::Program& program_;
  std::vector<Memory> memories_;
  std::map<std::int32_t, std::int32_t> taken_;
};

struct Message {
  std::int32_t from, to, window;
  std::vector<Byte> bytes;
  bool received = false;
};

class World {
 public:
  World(const ir::Schedule& schedule) : schedule_(schedule) {
    for (const ir::Program& program : schedule.programs) machines_.emplace_back(schedule, program);
  }

  void run() {
    std::set<std::int32_t> numbers;
    for (const Machine& machine : machines_) {
      for (const ir::Window& window : machine.program().windows) numbers.insert(window.number);
    }
    for (const std::int32_t number : numbers) {
      phase_ += 3;
      each(number, [&](Machine& m, const ir::Window& w) { before(m, w); });
      each(number, [&](Machine& m, const ir::Window& w) { send(m, w); });
      each(number, [&](Machine& m, const ir::Window& w) { receive(m, w); });
      each(number, [&](Machine& m, const ir::Window& w) { after(m, w); });
    }
    for (const auto& [number, message] : messages_) require(message.received, "not received");
    for (const Machine& machine : machines_) machine.check_end();
  }

 private:
  template <class Visit>
  void each(std::int32_t number, Visit visit) {
    for (Machine& machine : machines_) {
      for (const ir::Window& window : machine.program().windows) {
        if (window.number == number) visit(machine, window);
      }
    }
  }

  void local(Machine& machine, const ir::LocalOps& ops, int phase) {
    const ir::Program& program = machine.program();
    std::vector<std::pair<std::vector<Address>, std::vector<Byte>>> writes;
    for (const ir::Copy& copy : part_of(program.copies, ops.copies)) {
      writes.emplace_back(machine.expand(copy.to), machine.read(copy.from, phase));
    }
    for (const ir::Fill& fill : part_of(program.fills, ops.fills)) {
      const auto to = machine.expand(fill.to);
      const std::int32_t size = fill.pattern_bytes;
      require(size == 1 || size == 2 || size == 4 || size == 8, "pattern");
      require(fill.to.run_bytes % size == 0, "pattern size");
      Byte byte;
      byte.kind = Kind::Fill;
      writes.emplace_back(to, std::vector<Byte>(to.size(), byte));
    }
    for (const ir::Convert& convert : part_of(program.converts, ops.converts)) {
      writes.emplace_back(machine.expand(convert.to),
                          machine.convert(machine.read(convert.from, phase), convert));
    }
    for (const auto& [to, bytes] : writes) machine.write(to, bytes, phase);
  }

  void before(Machine& machine, const ir::Window& window) {
    for (const StorageId id : part_of(machine.program().storage_ids, window.allocate)) {
      machine.allocate(id);
    }
    local(machine, window.before, phase_);
  }

  void send(Machine& machine, const ir::Window& window) {
    const auto sends = part_of(machine.program().sends, window.sends);
    require(std::int64_t{window.sends.count} + window.receives.count <= schedule_.window_ops,
            "window ops");
    std::int32_t previous = -1;
    for (const ir::Send& send : sends) {
      require(send.to_rank.value > previous, "order of sends");
      previous = send.to_rank.value;
      require(send.to_rank != machine.program().rank, "send to itself");
      Message message{machine.program().rank.value, send.to_rank.value, window.number, {}};
      for (const ir::Slice& slice : part_of(machine.program().slices, send.slices)) {
        const auto bytes = machine.read(slice, phase_ + 1);
        message.bytes.insert(message.bytes.end(), bytes.begin(), bytes.end());
      }
      require(messages_.emplace(send.message, message).second, "message number");
    }
  }

  void receive(Machine& machine, const ir::Window& window) {
    std::int32_t previous = -1;
    for (const ir::Receive& receive : part_of(machine.program().receives, window.receives)) {
      require(receive.from_rank.value > previous, "order of receives");
      previous = receive.from_rank.value;
      const auto it = messages_.find(receive.message);
      require(it != messages_.end() && !it->second.received, "nothing sent");
      Message& message = it->second;
      require(message.from == receive.from_rank.value &&
                  message.to == machine.program().rank.value && message.window == window.number,
              "ends");
      message.received = true;
      std::vector<Address> to;
      for (const ir::Slice& slice : part_of(machine.program().slices, receive.slices)) {
        const auto addresses = machine.expand(slice);
        to.insert(to.end(), addresses.begin(), addresses.end());
      }
      machine.write(to, message.bytes, phase_ + 1);
    }
  }

  void after(Machine& machine, const ir::Window& window) {
    local(machine, window.after, phase_ + 2);
    for (const StorageId id : part_of(machine.program().storage_ids, window.free)) {
      machine.free(id);
    }
  }

  const ir::Schedule& schedule_;
  std::vector<Machine> machines_;
  std::map<std::int64_t, Message> messages_;
  int phase_ = 0;
};

}  // namespace

std::string interpret(const ir::Schedule& schedule) {
  try {
    World(schedule).run();
  } catch (const Fault& fault) {
    return fault.what;
  } catch (const std::out_of_range&) {
    return "id";
  }
  return {};
}

}  // namespace plan::verify::testing
