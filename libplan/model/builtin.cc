#include "libplan/model/builtin.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "libplan/base/files.h"
#include "libplan/base/json_tree.h"
#include "libplan/model/builtin_configs.h"
#include "libplan/model/huggingface.h"
#include "libplan/model/megatron_arguments.h"
#include "libplan/model/model_file.h"

namespace plan {
namespace {

constexpr std::string_view kOriginFormat = "libplan-model-origin";

std::string origin_text(const std::string& name, const JsonNode& content) {
  return "{\"format\":" + json_quote(kOriginFormat) +
         ",\"version\":1,\"name\":" + json_quote(name) +
         ",\"content\":" + to_compact_json(content, JsonKeyOrder::Sorted) + "}";
}

bool is_origin(const JsonCursor& root) {
  const JsonNode* format = root.node().find("format");
  return format != nullptr && format->kind == JsonKind::String && format->text == kOriginFormat;
}

void build(ModelInput& input, const JsonCursor& root, const std::string& name,
           const ModelOptions& options) {
  TransformerConfig& config = *input.config;
  if (config.name.empty()) config.name = name;
  if (options.make_vocab_size_divisible_by) {
    config.make_vocab_size_divisible_by = *options.make_vocab_size_divisible_by;
  }
  try {
    input.model = build_transformer(config, options.megatron_version, options.transformer_impl);
  } catch (const Error& error) {
    root.fail(error.what(), error.code());
  }
}

ModelInput read_content(const JsonCursor& root, const std::string& name,
                        const ModelOptions& options) {
  ModelInput input;
  if (!root.is(JsonKind::Object)) {
    root.fail("expected an object that describes a model, found " + describe(root.node()));
  }
  if (is_model_file(root)) {
    ModelFile file = read_model_file(root);
    input.model = std::move(file.model);
    input.state_kinds = std::move(file.state_kinds);
    if (options.make_vocab_size_divisible_by) {
      input.model.make_vocab_size_divisible_by = *options.make_vocab_size_divisible_by;
    }
  } else if (is_hugging_face_config(root)) {
    HuggingFaceModel model = read_hugging_face_config(root);
    input.config = std::move(model.config);
    input.mtp_num_layers = model.mtp_num_layers;
    build(input, root, name, options);
  } else if (is_megatron_arguments(root)) {
    input.config = read_megatron_arguments(root);
    build(input, root, name, options);
  } else {
    root.fail(
        "expected a Hugging Face config (\"model_type\"), Megatron arguments (\"num_layers\", "
        "\"hidden_size\", ...) or a model file (\"format\": \"libplan-model\"), found none of "
        "their keys");
  }
  input.origin_json = origin_text(input.model.name, root.node());
  return input;
}

void check_options(const ModelOptions& options) {
  if (options.mtp_num_layers != 0) {
    throw Error(ErrorCode::Unsupported,
                "multi-token prediction layers are not modelled: mtp_num_layers must be 0, found " +
                    std::to_string(options.mtp_num_layers));
  }
  if (options.make_vocab_size_divisible_by.value_or(1) < 1) {
    throw Error(ErrorCode::Usage, "make_vocab_size_divisible_by must be at least 1, found " +
                                      std::to_string(*options.make_vocab_size_divisible_by));
  }
}

// "models/llama-2-7b.config.json" -> "llama-2-7b"; "llama-2-7b/config.json" -> "llama-2-7b".
std::string name_of_file(const std::string& path) {
  const std::filesystem::path file(path);
  std::string name = file.stem().string();
  if (name.ends_with(".config")) name.resize(name.size() - std::string_view(".config").size());
  const std::string folder = file.parent_path().filename().string();
  return name == "config" && !folder.empty() ? folder : name;
}

[[noreturn]] void refuse_name(const std::string& name) {
  const std::vector<std::string> known = builtin_model_names();
  std::string list;
  for (const std::string& word : known) list += (list.empty() ? "" : ", ") + word;
  const std::string near = nearest_word(name, known);
  throw Error(ErrorCode::Unreadable,
              "neither a file nor a built-in model (" + list + ")" +
                  (near.empty() ? "" : "; the nearest name is " + near),
              name);
}

}  // namespace

std::vector<std::string> builtin_model_names() {
  std::vector<std::string> names;
  for (const BuiltinConfig& config : builtin_configs()) names.emplace_back(config.name);
  return names;
}

ModelInput read_model(const std::string& name_or_path, const ModelOptions& options) {
  for (const BuiltinConfig& config : builtin_configs()) {
    if (config.name == name_or_path) {
      return parse_model(config.json, name_or_path, name_or_path, options);
    }
  }
  std::error_code ignored;
  if (!std::filesystem::exists(name_or_path, ignored)) refuse_name(name_or_path);
  return parse_model(read_file(name_or_path), name_or_path, name_of_file(name_or_path), options);
}

ModelInput parse_model(std::string_view json, const std::string& source_name,
                       const std::string& model_name, const ModelOptions& options) {
  check_options(options);
  const JsonDocument document = parse_json(json, source_name);
  const JsonCursor root = JsonCursor::root(document);
  if (!is_origin(root)) return read_content(root, model_name, options);
  root.expect_object({"format", "version", "name", "content"});
  root.at("version").as_int32(1, 1);
  return read_content(root.at("content"), root.at("name").as_string(), options);
}

}  // namespace plan
