#include "libplan/layout/layout_json.h"

#include <algorithm>
#include <map>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/model/state_kind_json.h"

namespace plan {
namespace {

constexpr std::string_view kFormat = "libplan-layout";
constexpr std::int32_t kVersion = 1;
constexpr std::int64_t kMaxSize = INT64_MAX;

template <class List, class Write>
std::string joined(const List& list, Write write) {
  std::string text = "[";
  bool first = true;
  for (const auto& item : list) {
    text += (first ? "" : ", ") + write(item);
    first = false;
  }
  return text + "]";
}

std::string number(std::int64_t value) { return std::to_string(value); }

std::string write_tensor(const LayoutTensor& tensor) {
  std::string text =
      "{\"name\": " + json_quote(tensor.name) + ", \"shape\": " + joined(tensor.shape, number);
  if (tensor.block_axis >= 0) text += ", \"block_axis\": " + std::to_string(tensor.block_axis);
  if (tensor.padding) text += ", \"padding\": true";
  return text + "}";
}

std::string write_shard(const Layout& layout, const Shard& shard) {
  std::vector<std::int64_t> offset;
  for (int axis = 0; axis < shard.box.count; ++axis) offset.push_back(shard.box[axis].begin);
  return "{\"tensor\": " +
         json_quote(layout.tensors[static_cast<std::size_t>(shard.tensor.value)].name) +
         ", \"global_offset\": " + joined(offset, number) +
         ", \"shape\": " + joined(shard.box.extents(), number) +
         ", \"local_offset\": " + number(shard.offset_elems) +
         ", \"strides\": " + joined(shard.strides_elems, number) + "}";
}

void append_storage(const Layout& layout, const Storage& storage, std::string& text) {
  text +=
      "    {\"key\": " + json_quote(storage.key) + ", \"states\": " +
      joined(storage.lanes,
             [&](const Lane& lane) {
               return "{\"state\": " +
                      json_quote(layout.states[static_cast<std::size_t>(lane.state.value)].name) +
                      ", \"dtype\": " + json_quote(name_of(lane.dtype)) + "}";
             }) +
      ", \"size_elems\": " + number(storage.size_elems) +
      ", \"memory\": " + to_json(storage.memory) + ", \"pieces\": [";
  for (std::size_t i = 0; i < storage.shards.size(); ++i) {
    text += (i > 0 ? ",\n     " : "\n     ") + write_shard(layout, storage.shards[i]);
  }
  text += "]}";
}

// --- reading ---

Dims read_dims(const JsonCursor& cursor) {
  Dims dims;
  for (const JsonCursor& element : cursor.elements()) {
    if (dims.count == kMaxDims)
      cursor.fail("expected at most " + std::to_string(kMaxDims) + " dimensions, found more");
    dims.push_back(element.as_int64(0, kMaxSize));
  }
  return dims;
}

LayoutTensor read_tensor(const JsonCursor& cursor) {
  cursor.expect_object({"name", "shape", "block_axis", "padding"});
  LayoutTensor tensor;
  tensor.name = cursor.at("name").as_string();
  tensor.shape = read_dims(cursor.at("shape"));
  if (const auto axis = cursor.find("block_axis"))
    tensor.block_axis = axis->as_int32(0, kMaxDims - 1);
  if (const auto padding = cursor.find("padding")) tensor.padding = padding->as_bool();
  return tensor;
}

class LayoutReader {
 public:
  Layout run(const JsonCursor& root) {
    root.expect_object({"format", "version", "tensors", "states", "devices"});
    if (root.at("format").as_string() != kFormat) {
      root.at("format").fail("expected " + json_quote(kFormat) + ", found " +
                             describe(root.at("format").node()));
    }
    root.at("version").as_int32(kVersion, kVersion);
    for (const JsonCursor& cursor : root.at("tensors").elements()) {
      layout_.tensors.push_back(read_tensor(cursor));
      add_name(tensors_, layout_.tensors.back().name, cursor);
    }
    for (const JsonCursor& cursor : root.at("states").elements()) {
      layout_.states.push_back(read_state_kind(cursor));
      add_name(states_, layout_.states.back().name, cursor);
    }
    for (const JsonCursor& cursor : root.at("devices").elements()) {
      cursor.expect_object({"device", "storages"});
      DeviceShards device;
      device.device = DeviceId(cursor.at("device").as_int32(0, INT32_MAX));
      for (const JsonCursor& storage : cursor.at("storages").elements()) {
        device.storages.push_back(read_storage(storage));
      }
      layout_.devices.push_back(std::move(device));
    }
    return std::move(layout_);
  }

 private:
  using Names = std::map<std::string, std::int32_t>;

  static void add_name(Names& names, const std::string& name, const JsonCursor& cursor) {
    if (!names.emplace(name, static_cast<std::int32_t>(names.size())).second) {
      cursor.fail("the name " + json_quote(name) + " is given twice");
    }
  }

  static std::int32_t find_name(const Names& names, const JsonCursor& cursor, const char* what) {
    const auto at = names.find(cursor.as_string());
    if (at == names.end()) {
      cursor.fail(std::string("expected a ") + what + " of this layout, found " +
                  describe(cursor.node()));
    }
    return at->second;
  }

  Storage read_storage(const JsonCursor& cursor) const {
    cursor.expect_object({"key", "states", "size_elems", "memory", "pieces"});
    Storage storage;
    storage.key = cursor.at("key").as_string();
    for (const JsonCursor& lane : cursor.at("states").elements()) {
      lane.expect_object({"state", "dtype"});
      storage.lanes.push_back(
          {StateId(find_name(states_, lane.at("state"), "state")), read_dtype(lane.at("dtype"))});
    }
    std::sort(storage.lanes.begin(), storage.lanes.end());
    storage.size_elems = cursor.at("size_elems").as_int64(0, kMaxSize);
    storage.memory = read_memory_kind(cursor.at("memory"));
    for (const JsonCursor& piece : cursor.at("pieces").elements())
      storage.shards.push_back(read_shard(piece));
    return storage;
  }

  Shard read_shard(const JsonCursor& cursor) const {
    cursor.expect_object({"tensor", "global_offset", "shape", "local_offset", "strides"});
    Shard shard;
    shard.tensor = TensorId(find_name(tensors_, cursor.at("tensor"), "tensor"));
    const Dims offset = read_dims(cursor.at("global_offset"));
    const Dims shape = read_dims(cursor.at("shape"));
    shard.strides_elems = read_dims(cursor.at("strides"));
    if (offset.count != shape.count || offset.count != shard.strides_elems.count) {
      cursor.fail("expected global_offset, shape and strides of one length, found " +
                  std::to_string(offset.count) + ", " + std::to_string(shape.count) + " and " +
                  std::to_string(shard.strides_elems.count));
    }
    shard.box.count = offset.count;
    for (int axis = 0; axis < offset.count; ++axis) {
      if (offset[axis] > kMaxSize - shape[axis])
        cursor.fail("global_offset + shape leaves the range of 64 bits");
      shard.box[axis] = {offset[axis], offset[axis] + shape[axis]};
    }
    shard.offset_elems = cursor.at("local_offset").as_int64(0, kMaxSize);
    return shard;
  }

  Layout layout_;
  Names tensors_;
  Names states_;
};

}  // namespace

std::string to_json(const Layout& layout) {
  std::string text = "{\"format\": " + json_quote(kFormat) +
                     ", \"version\": " + std::to_string(kVersion) + ",\n \"tensors\": [";
  for (std::size_t i = 0; i < layout.tensors.size(); ++i) {
    text += (i > 0 ? ",\n  " : "\n  ") + write_tensor(layout.tensors[i]);
  }
  text += "],\n \"states\": [";
  for (std::size_t i = 0; i < layout.states.size(); ++i) {
    text += (i > 0 ? ",\n  " : "\n  ") + to_json(layout.states[i]);
  }
  text += "],\n \"devices\": [";
  for (std::size_t d = 0; d < layout.devices.size(); ++d) {
    const DeviceShards& device = layout.devices[d];
    text += (d > 0 ? ",\n  " : "\n  ") + std::string("{\"device\": ") +
            std::to_string(device.device.value) + ", \"storages\": [";
    for (std::size_t s = 0; s < device.storages.size(); ++s) {
      text += s > 0 ? ",\n" : "\n";
      append_storage(layout, device.storages[s], text);
    }
    text += "]}";
  }
  return text + "]}\n";
}

Layout parse_layout_json(std::string_view json, const std::string& source_name) {
  const JsonDocument document = parse_json(json, source_name);
  Layout layout = LayoutReader().run(JsonCursor::root(document));
  validate(layout);
  return layout;
}

}  // namespace plan
