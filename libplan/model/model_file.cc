#include "libplan/model/model_file.h"

#include <array>
#include <optional>
#include <set>
#include <utility>

#include "libplan/base/checked.h"
#include "libplan/base/json_words.h"
#include "libplan/model/state_kind_json.h"

namespace plan {
namespace {

constexpr std::string_view kFormat = "libplan-model";
constexpr std::int32_t kVersion = 1;

constexpr std::array kStages = {
    Word<StageRole>{"first", StageRole::First},
    Word<StageRole>{"layer", StageRole::Layer},
    Word<StageRole>{"last", StageRole::Last},
    Word<StageRole>{"first_and_last", StageRole::FirstAndLast},
    Word<StageRole>{"every", StageRole::Every},
};
constexpr std::array kExpertParams = {
    Word<ExpertParams>{"sequential", ExpertParams::Sequential},
    Word<ExpertParams>{"per_linear", ExpertParams::PerLinear},
    Word<ExpertParams>{"fused", ExpertParams::Fused},
};
bool flag_or(const JsonCursor& record, std::string_view key, bool fallback) {
  const std::optional<JsonCursor> value = record.find(key);
  return value ? value->as_bool() : fallback;
}

// The axis of the canonical shape, which has one more before `block_axis + 1`; -1: none.
int canonical_axis(int logical_axis, int block_axis) {
  return block_axis >= 0 && logical_axis > block_axis ? logical_axis + 1 : logical_axis;
}

int logical_axis(int canonical_axis, int block_axis) {
  return block_axis >= 0 && canonical_axis > block_axis ? canonical_axis - 1 : canonical_axis;
}

// A record and the layers that it stands for: none, or [first_layer, first_layer + count).
struct TensorRecord {
  Tensor tensor;
  JsonCursor cursor;
  std::int32_t first_layer = -1;
  std::int32_t count = 1;
  bool repeated = false;
};

class TensorReader {
 public:
  explicit TensorReader(const JsonCursor& record) : record_(record) {}

  TensorRecord read() {
    record_.expect_object({"name", "shape", "dtype", "tp", "expert_axis", "vocab_axis", "layer",
                           "stage", "trainable", "buffer", "local_name", "memory_order",
                           "experts_fused", "repeat"});
    tensor_.name = record_.at("name").as_string();
    if (tensor_.name.empty()) record_.at("name").fail("a tensor needs a name");
    tensor_.dtype = read_dtype(record_.at("dtype"));
    tensor_.trainable = flag_or(record_, "trainable", true);
    tensor_.buffer = flag_or(record_, "buffer", false);
    tensor_.experts_fused = flag_or(record_, "experts_fused", false);
    if (const std::optional<JsonCursor> name = record_.find("local_name")) {
      tensor_.local_name = name->as_string();
    }
    read_shape();
    read_axes();
    if (const std::optional<JsonCursor> order = record_.find("memory_order")) {
      for (const JsonCursor& axis : order->elements()) {
        tensor_.memory_order.push_back(axis.as_int32(0, kMaxDims - 1));
      }
    }
    TensorRecord result{{}, record_};
    read_stage(result);
    result.tensor = std::move(tensor_);
    return result;
  }

 private:
  void read_shape() {
    const JsonCursor shape = record_.at("shape");
    const std::vector<JsonCursor> extents = shape.elements();
    const std::optional<JsonCursor> tp = record_.find("tp");
    const bool blocks = tp && tp->find("blocks");
    const std::size_t most = static_cast<std::size_t>(kMaxDims) - (blocks ? 1 : 0);
    if (extents.size() > most) {
      shape.fail("expected at most " + std::to_string(most) + " extents" +
                     (blocks ? " with blocks" : "") + ", found " + std::to_string(extents.size()),
                 ErrorCode::Unsupported);
    }
    for (const JsonCursor& extent : extents) {
      logical_.push_back(extent.as_int64(0, INT64_MAX));
    }
  }

  int read_axis(const JsonCursor& cursor) {
    if (logical_.count == 0) cursor.fail("a scalar has no axis");
    return cursor.as_int32(0, logical_.count - 1);
  }

  // Axes in the file's own numbering; that they differ is checked here since the file's words are
  // not Tensor's.
  void read_axes() {
    int tp = -1;
    std::optional<std::int64_t> blocks;
    if (const std::optional<JsonCursor> record = record_.find("tp")) {
      record->expect_object({"axis", "blocks"});
      tp = read_axis(record->at("axis"));
      if (const std::optional<JsonCursor> count = record->find("blocks")) {
        blocks = count->as_int64(1, INT64_MAX);
        if (logical_[tp] % *blocks != 0) {
          count->fail("blocks must divide extent " + std::to_string(logical_[tp]) + " of axis " +
                      std::to_string(tp) + ", found " + std::to_string(*blocks));
        }
      }
    }
    const int expert = read_other_axis("expert_axis", {tp});
    // Padding a vocabulary by blocks would tear the blocks apart.
    const int vocab = read_other_axis("vocab_axis", {expert, blocks ? tp : -1});
    canonicalize(tp, blocks, expert, vocab);
  }

  int read_other_axis(std::string_view key, std::initializer_list<int> taken) {
    const std::optional<JsonCursor> cursor = record_.find(key);
    if (!cursor) return -1;
    const int axis = read_axis(*cursor);
    for (const int other : taken) {
      if (axis == other) {
        cursor->fail("axis " + std::to_string(axis) + " is already cut in another way");
      }
    }
    return axis;
  }

  void canonicalize(int tp, std::optional<std::int64_t> blocks, int expert, int vocab) {
    const int block_axis = blocks ? tp : -1;
    for (int axis = 0; axis < logical_.count; ++axis) {
      if (axis == block_axis) {
        tensor_.shape.push_back(*blocks);
        tensor_.shape.push_back(logical_[axis] / *blocks);
      } else {
        tensor_.shape.push_back(logical_[axis]);
      }
    }
    tensor_.block_axis = block_axis;
    tensor_.tp_axis = blocks ? tp + 1 : tp;
    tensor_.expert_axis = canonical_axis(expert, block_axis);
    tensor_.vocab_axis = canonical_axis(vocab, block_axis);
  }

  void read_stage(TensorRecord& result) {
    const std::optional<JsonCursor> layer = record_.find("layer");
    const std::optional<JsonCursor> repeat = record_.find("repeat");
    const std::optional<JsonCursor> stage = record_.find("stage");
    if (!stage && !layer && !repeat) record_.fail("required key \"stage\" or \"layer\" is missing");
    tensor_.stage = stage ? read_word(*stage, kStages) : StageRole::Layer;
    if (tensor_.stage != StageRole::Layer) {
      if (layer) layer->fail("only a tensor of stage \"layer\" has a layer");
      if (repeat) repeat->fail("only a tensor of stage \"layer\" can be repeated");
      return;
    }
    if (!layer && !repeat) record_.fail("required key \"layer\" is missing");
    result.first_layer = layer ? layer->as_int32(0, INT32_MAX) : 0;
    if (!repeat) return;
    result.repeated = true;
    result.count = repeat->as_int32(1, INT32_MAX);
    if (tensor_.name.find("{i}") == std::string::npos) {
      record_.at("name").fail("the name of a repeated tensor must hold {i}, found " +
                              json_quote(tensor_.name));
    }
  }

  const JsonCursor& record_;
  Tensor tensor_;
  Dims logical_;
};

std::string with_layer(std::string name, std::int32_t layer) {
  const std::string number = std::to_string(layer);
  for (std::size_t at = 0; (at = name.find("{i}", at)) != std::string::npos; at += number.size()) {
    name.replace(at, 3, number);
  }
  return name;
}

class ModelReader {
 public:
  explicit ModelReader(const JsonCursor& root) : root_(root) {}

  ModelFile read() && {
    read_header();
    std::vector<TensorRecord> records;
    for (const JsonCursor& cursor : root_.at("tensors").elements()) {
      records.push_back(TensorReader(cursor).read());
      check_layers(records.back());
    }
    for (std::size_t begin = 0; begin < records.size();) {
      std::size_t end = begin + 1;
      while (records[begin].repeated && end < records.size() && records[end].repeated &&
             records[end].first_layer == records[begin].first_layer &&
             records[end].count == records[begin].count) {
        ++end;
      }
      expand(records, begin, end);
      begin = end;
    }
    if (const std::optional<ModelFault> fault = find_fault(file_.model)) {
      records[record_of_[fault->tensor]].cursor.fail(fault->message);
    }
    read_state_kinds();
    return std::move(file_);
  }

 private:
  void read_header() {
    root_.expect_object({"format", "version", "name", "num_layers", "num_experts",
                         "tied_embeddings", "make_vocab_size_divisible_by", "homogeneous_layers",
                         "expert_params", "tensors", "state_kinds"});
    const JsonCursor format = root_.at("format");
    if (format.as_string() != kFormat) {
      format.fail("expected \"libplan-model\", found " + describe(format.node()));
    }
    const JsonCursor version = root_.at("version");
    if (version.as_int64(0, INT64_MAX) != kVersion) {
      version.fail("expected version 1, found " + describe(version.node()), ErrorCode::Unsupported);
    }
    Model& model = file_.model;
    model.name = root_.at("name").as_string();
    model.num_layers = root_.at("num_layers").as_int32(0, INT32_MAX);
    if (const std::optional<JsonCursor> experts = root_.find("num_experts")) {
      model.num_experts = experts->as_int32(0, INT32_MAX);
    }
    model.tied_embeddings = flag_or(root_, "tied_embeddings", false);
    if (const std::optional<JsonCursor> divisor = root_.find("make_vocab_size_divisible_by")) {
      model.make_vocab_size_divisible_by = divisor->as_int64(1, INT64_MAX);
    }
    model.homogeneous_layers = flag_or(root_, "homogeneous_layers", true);
    if (const std::optional<JsonCursor> params = root_.find("expert_params")) {
      model.expert_params = read_word(*params, kExpertParams);
    }
  }

  // Refused before anything is expanded, so that a large repeat costs nothing.
  void check_layers(const TensorRecord& record) {
    if (record.first_layer < 0) return;
    expanded_ += record.count;
    if (expanded_ > kMaxTensors) {
      record.cursor.fail("a model has at most " + std::to_string(kMaxTensors) + " tensors, found " +
                             std::to_string(expanded_),
                         ErrorCode::Unsupported);
    }
    const std::int64_t end = std::int64_t{record.first_layer} + record.count;
    if (end <= file_.model.num_layers) return;
    record.cursor.fail("layers must be among the " + std::to_string(file_.model.num_layers) +
                       " layers, counted from 0, found layer " + std::to_string(end - 1));
  }

  void expand(const std::vector<TensorRecord>& records, std::size_t begin, std::size_t end) {
    for (std::int32_t copy = 0; copy < records[begin].count; ++copy) {
      for (std::size_t i = begin; i < end; ++i) {
        Tensor tensor = records[i].tensor;
        if (tensor.stage == StageRole::Layer) tensor.layer = records[i].first_layer + copy;
        if (records[i].repeated) tensor.name = with_layer(std::move(tensor.name), tensor.layer);
        file_.model.tensors.push_back(std::move(tensor));
        record_of_.push_back(i);
      }
    }
  }

  void read_state_kinds() {
    const std::optional<JsonCursor> list = root_.find("state_kinds");
    if (!list) return;
    std::set<std::string> names;
    for (const JsonCursor& record : list->elements()) {
      StateKind kind = read_state_kind(record);
      if (!names.insert(kind.name).second) {
        record.at("name").fail("two kinds of state are named " + kind.name);
      }
      file_.state_kinds.push_back(std::move(kind));
    }
  }

  const JsonCursor& root_;
  ModelFile file_;
  std::int64_t expanded_ = 0;           // tensors inside layers so far
  std::vector<std::size_t> record_of_;  // index into the file's records, per tensor
};

template <class Numbers>
std::string list_text(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(number);
  }
  return text + "]";
}

std::string tensor_text(const Tensor& tensor) {
  std::string text = "{\"name\": " + json_quote(tensor.name);
  const auto add = [&text](const char* key, const std::string& value) {
    text += std::string(", \"") + key + "\": " + value;
  };
  const auto add_axis = [&](const char* key, int axis) {
    if (axis >= 0) add(key, std::to_string(logical_axis(axis, tensor.block_axis)));
  };
  add("shape", list_text(tensor.logical_shape()));
  add("dtype", json_quote(name_of(tensor.dtype)));
  if (tensor.block_axis >= 0) {
    add("tp", "{\"axis\": " + std::to_string(tensor.block_axis) +
                  ", \"blocks\": " + std::to_string(tensor.shape[tensor.block_axis]) + "}");
  } else if (tensor.tp_axis >= 0) {
    add("tp", "{\"axis\": " + std::to_string(tensor.tp_axis) + "}");
  }
  add_axis("expert_axis", tensor.expert_axis);
  add_axis("vocab_axis", tensor.vocab_axis);
  if (tensor.stage == StageRole::Layer) {
    add("layer", std::to_string(tensor.layer));
  } else {
    add("stage", word_of(kStages, tensor.stage));
  }
  if (!tensor.trainable) add("trainable", "false");
  if (tensor.buffer) add("buffer", "true");
  if (!tensor.local_name.empty()) add("local_name", json_quote(tensor.local_name));
  if (!tensor.memory_order.empty()) add("memory_order", list_text(tensor.memory_order));
  if (tensor.experts_fused) add("experts_fused", "true");
  return text + "}";
}

template <class Items, class Text>
std::string lines(const Items& items, Text text_of) {
  std::string text = "[";
  for (const auto& item : items) text += (text.size() > 1 ? ",\n    " : "\n    ") + text_of(item);
  return text + (text.size() > 1 ? "\n  ]" : "]");
}

}  // namespace

bool is_model_file(const JsonCursor& root) {
  const JsonNode* format = root.node().find("format");
  return format != nullptr && format->kind == JsonKind::String && format->text == kFormat;
}

ModelFile read_model_file(const JsonCursor& root) { return ModelReader(root).read(); }

std::string to_json(const ModelFile& file) {
  const Model& model = file.model;
  std::string text = "{\n  \"format\": \"libplan-model\",\n  \"version\": 1";
  const auto add = [&text](const char* key, const std::string& value) {
    text += std::string(",\n  \"") + key + "\": " + value;
  };
  add("name", json_quote(model.name));
  add("num_layers", std::to_string(model.num_layers));
  if (model.num_experts != 0) add("num_experts", std::to_string(model.num_experts));
  if (model.tied_embeddings) add("tied_embeddings", "true");
  add("make_vocab_size_divisible_by", std::to_string(model.make_vocab_size_divisible_by));
  if (!model.homogeneous_layers) add("homogeneous_layers", "false");
  if (model.expert_params != ExpertParams::Sequential) {
    add("expert_params", word_of(kExpertParams, model.expert_params));
  }
  add("tensors", lines(model.tensors, tensor_text));
  if (!file.state_kinds.empty())
    add("state_kinds",
        lines(file.state_kinds, [](const StateKind& kind) { return to_json(kind); }));
  return text + "\n}\n";
}

}  // namespace plan
