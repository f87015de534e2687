// The expected element at each place follows from the dump alone: the checkpoint shards of a local
// parameter say which global element each local one is.
#include <map>
#include <set>

#include "libplan/base/error.h"
#include "tests/layout/compare_golden.h"

namespace plan {
namespace {

// An element of a logical tensor, by its row-major number; numbers do not depend on the block axis.
struct Element {
  std::int32_t tensor = -1;
  std::int64_t number = -1;
  friend bool operator==(const Element&, const Element&) = default;
};

constexpr std::string_view kLayers = "decoder.layers.";

// A checkpoint shard as the dump has it.
struct GoldenShard {
  std::string tensor;
  std::vector<std::int64_t> local, global, offset;  // without prepended axes / layer axis
  std::int64_t first = 0;                           // number of the tensor's first element
};

GoldenShard read_shard(const JsonCursor& json, bool singleton) {
  GoldenShard shard;
  shard.tensor = json.at("key").as_string();
  shard.local = read_integers(json.at("ls"));
  shard.global = read_integers(json.at("gs"));
  shard.offset = read_integers(json.at("go"));
  if (shard.tensor.starts_with(kLayers) && shard.tensor[kLayers.size()] > '9') {
    shard.tensor.insert(kLayers.size(), std::to_string(shard.offset[0]) + ".");
    shard.global.erase(shard.global.begin());
    shard.offset.erase(shard.offset.begin());
  }
  if (singleton && (shard.tensor.ends_with("_w") || shard.tensor.ends_with("_v"))) {
    const bool up = shard.tensor.ends_with("_v");
    shard.tensor.resize(shard.tensor.size() - 2);
    if (up) {
      shard.first = 1;
      for (const std::int64_t extent : shard.global) shard.first *= extent;
    }
  }
  while (shard.local.size() < shard.global.size()) shard.local.insert(shard.local.begin(), 1);
  return shard;
}

class ShardMapComparison {
 public:
  explicit ShardMapComparison(const GoldenCase& golden)
      : golden_(golden),
        root_(golden.root()),
        layout_(
            megatron_layout(golden.model, golden.strategy, golden.options,
                            golden.optimizer_failed()
                                ? state_kinds({"param"})
                                : state_kinds({"param", "main_param", "exp_avg", "exp_avg_sq"}))),
        buffer_defs_(root_.at("buffer_defs").elements()) {
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
      tensors_[layout_.tensors[i].name] = static_cast<std::int32_t>(i);
    }
    for (const JsonCursor& def : root_.at("param_defs").elements()) {
      elements_.push_back(elements_of(def));
      names_.push_back(def.at("name").as_string());
    }
    for (const JsonCursor& def : buffer_defs_) {
      std::vector<std::string>& names = names_in_buffer_.emplace_back();
      for (const JsonCursor& row : def.at("params").elements()) {
        names.push_back(row.elements()[0].as_string());
      }
    }
  }

  std::vector<FieldResult> run() {
    validate(layout_);
    for (const JsonCursor& rank : root_.at("ranks").elements()) compare_rank(rank);
    if (golden_.optimizer_failed()) expect_refusal();
    return {main_, param_};
  }

 private:
  void add_element(std::vector<Element>& elements, std::size_t at, const GoldenShard& shard,
                   std::int64_t number) const {
    number += shard.first;
    std::string tensor = shard.tensor;
    if (tensor == "embedding.word_embeddings.weight" || tensor == "output_layer.weight") {
      const std::int64_t real = root_.at("model").at("vocab_size").as_int64(1, INT64_MAX) *
                                root_.at("model").at("hidden_size").as_int64(1, INT64_MAX);
      if (number >= real) {
        tensor += ".padding";
        number -= real;
      }
    }
    const auto known = tensors_.find(tensor);
    elements.at(at) = {known == tensors_.end() ? -2 : known->second, number};
  }

  // By place in the flattened local parameter.
  std::vector<Element> elements_of(const JsonCursor& def) const {
    std::int64_t total = 1;
    for (const std::int64_t extent : read_integers(def.at("shape"))) total *= extent;
    std::vector<Element> elements(static_cast<std::size_t>(total));
    // The legacy grouped experts keep each expert's matrices transposed, gate beside up.
    const bool transposed = def.at("name").as_string().find(".experts.weight") != std::string::npos;
    std::vector<GoldenShard> shards;
    std::int64_t all_rows = 0;
    for (const JsonCursor& json : def.at("shards").elements()) {
      shards.push_back(read_shard(json, golden_.checkpoint.singleton_local_shards));
      if (transposed) all_rows += shards.back().local[1];
    }
    std::int64_t begin = 0;  // of the shard in memory, or its first row
    for (const GoldenShard& shard : shards) {
      std::vector<std::int64_t> index(shard.local.size(), 0);
      std::int64_t count = 1;
      for (const std::int64_t extent : shard.local) count *= extent;
      for (std::int64_t flat = 0; flat < count; ++flat) {
        std::int64_t number = 0;
        for (std::size_t axis = 0; axis < index.size(); ++axis) {
          number = number * shard.global[axis] + shard.offset[axis] + index[axis];
        }
        std::int64_t place = begin + flat;
        if (transposed) {
          place = (index[0] * shard.local[2] + index[2]) * all_rows + begin + index[1];
        }
        add_element(elements, static_cast<std::size_t>(place), shard, number);
        for (std::size_t axis = index.size(); axis-- > 0;) {
          if (++index[axis] < shard.local[axis]) break;
          index[axis] = 0;
        }
      }
      begin += transposed ? shard.local[1] : count;
    }
    return elements;
  }

  // By place in the storage; places that no shard covers keep tensor -1.
  std::vector<Element> elements_of(const Storage& storage) const {
    std::vector<Element> elements(static_cast<std::size_t>(storage.size_elems));
    for (const Shard& shard : storage.shards) {
      const Dims shape = layout_.tensors[static_cast<std::size_t>(shard.tensor.value)].shape;
      const Dims extents = shard.box.extents();
      Dims index;
      index.count = extents.count;
      for (std::int64_t left = num_elements(extents); left > 0; --left) {
        std::int64_t number = 0;
        std::int64_t place = shard.offset_elems;
        for (int axis = 0; axis < index.count; ++axis) {
          number = number * shape[axis] + shard.box[axis].begin + index[axis];
          place += index[axis] * shard.strides_elems[axis];
        }
        elements.at(static_cast<std::size_t>(place)) = {shard.tensor.value, number};
        for (int axis = index.count - 1; axis >= 0; --axis) {
          if (++index[axis] < extents[axis]) break;
          index[axis] = 0;
        }
      }
    }
    return elements;
  }

  bool has_state(const Storage& storage, const std::string& name) const {
    for (const Lane& lane : storage.lanes) {
      if (layout_.states[static_cast<std::size_t>(lane.state.value)].name == name) return true;
    }
    return false;
  }

  void compare_rank(const JsonCursor& rank) {
    const std::int32_t number = rank.at("rank").as_int32(0, INT32_MAX);
    const DeviceShards& device = layout_.devices.at(static_cast<std::size_t>(number));
    std::map<std::string, const Storage*> main, param;
    for (const Storage& storage : device.storages) {
      if (has_state(storage, "main_param")) main[storage.key] = &storage;
      if (has_state(storage, "param")) param[storage.key] = &storage;
    }
    std::size_t num_main = 0, num_param = 0;
    const std::vector<JsonCursor> chunks = rank.at("chunks").elements();
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      place_ = "rank " + std::to_string(number) + " chunk" + std::to_string(c);
      const std::map<std::string, const std::vector<Element>*> local = local_params(chunks[c]);
      for (const JsonCursor& entry : chunks[c].at("buffers").elements()) {
        const std::vector<JsonCursor> parts = entry.elements();
        const auto def = static_cast<std::size_t>(parts[0].as_int32(0, INT32_MAX));
        ++num_param;
        compare_buffer(buffer_defs_[def], local, "chunk" + std::to_string(c) + "/", param);
        for (const JsonCursor& row : parts[2].elements()) {
          if (golden_.optimizer_failed()) break;
          ++num_main;
          compare_owned(names_in_buffer_[def], read_integers(row), local,
                        "chunk" + std::to_string(c) + "/", main);
        }
      }
    }
    main_.equal(static_cast<std::int64_t>(main.size()), static_cast<std::int64_t>(num_main),
                place_ + " number of main_param storages");
    param_.equal(static_cast<std::int64_t>(param.size()), static_cast<std::int64_t>(num_param),
                 place_ + " number of param storages");
  }

  // Elements of the chunk's parameters by local name.
  std::map<std::string, const std::vector<Element>*> local_params(const JsonCursor& chunk) const {
    std::map<std::string, const std::vector<Element>*> local;
    for (const JsonCursor& param : chunk.at("params").elements()) {
      const auto def = static_cast<std::size_t>(param.elements()[0].as_int32(0, INT32_MAX));
      local[names_[def]] = &elements_[def];
    }
    return local;
  }

  void compare_buffer(const JsonCursor& def,
                      const std::map<std::string, const std::vector<Element>*>& local,
                      const std::string& prefix,
                      const std::map<std::string, const Storage*>& storages) {
    const std::string key = prefix + "param_buffer." + def.at("kind").as_string() + ".bf16";
    const auto storage = storages.find(key);
    param_.expect(storage != storages.end(), place_ + " lacks " + key);
    if (storage == storages.end()) return;
    std::vector<Element> expected(static_cast<std::size_t>(def.at("numel").as_int64(0, INT64_MAX)));
    for (const JsonCursor& row : def.at("params").elements()) {
      const std::vector<JsonCursor> fields = row.elements();
      auto place = static_cast<std::size_t>(fields[1].as_int64(0, INT64_MAX));
      for (const Element& element : *local.at(fields[0].as_string())) {
        expected.at(place++) = element;
      }
    }
    param_.expect(elements_of(*storage->second) == expected, place_ + " " + key + " elements");
  }

  void compare_owned(const std::vector<std::string>& names, const std::vector<std::int64_t>& row,
                     const std::map<std::string, const std::vector<Element>*>& local,
                     const std::string& prefix,
                     const std::map<std::string, const Storage*>& storages) {
    const std::string& name = names.at(static_cast<std::size_t>(row[0]));
    const auto storage = storages.find(prefix + name);
    main_.expect(storage != storages.end(), place_ + " lacks " + name);
    if (storage == storages.end()) return;
    const std::vector<Element>& all = *local.at(name);
    const std::vector<Element> expected(all.begin() + row[4], all.begin() + row[5]);
    main_.expect(elements_of(*storage->second) == expected, place_ + " " + name + " elements");
    main_.expect(storage->second->lanes.size() == 3, place_ + " " + name + " states");
  }

  void expect_refusal() {
    try {
      megatron_layout(golden_.model, golden_.strategy, golden_.options,
                      state_kinds({"main_param"}));
      main_.expect(false, "the optimizer's states must be refused");
    } catch (const Error& error) {
      main_.expect(error.code() == ErrorCode::Unsupported, error.what());
    }
  }

  const GoldenCase& golden_;
  JsonCursor root_;
  Layout layout_;
  std::vector<JsonCursor> buffer_defs_;
  std::map<std::string, std::int32_t> tensors_;
  std::vector<std::vector<Element>> elements_;             // by param_defs
  std::vector<std::string> names_;                         // by param_defs
  std::vector<std::vector<std::string>> names_in_buffer_;  // by buffer_defs
  std::string place_;
  FieldResult main_{"main_param map"}, param_{"param map"};
};

}  // namespace

std::vector<FieldResult> compare_shard_map(const GoldenCase& golden) {
  return ShardMapComparison(golden).run();
}

}  // namespace plan
