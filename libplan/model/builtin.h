// The one entry for models: a built-in name, or a file whose content says what it is.
//
// read_model takes
//   * a built-in name (builtin_model_names): a config.json inside the library,
//   * a Hugging Face config.json ("model_type"),
//   * Megatron arguments ("num_layers", "hidden_size", ...),
//   * a model file ("format": "libplan-model"),
//   * an origin, i.e. what ModelInput::origin_json of an earlier read holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/model/model.h"
#include "libplan/model/transformer.h"

namespace plan {

// How a transformer becomes tensors; a model file says so itself.
struct ModelOptions {
  MegatronVersion megatron_version = MegatronVersion::V020;
  TransformerImpl transformer_impl = TransformerImpl::TransformerEngine;
  std::optional<std::int64_t> make_vocab_size_divisible_by;  // wins over the file's
  std::int32_t mtp_num_layers = 0;                           // above 0: Error(Unsupported)
};

struct ModelInput {
  Model model;
  std::optional<TransformerConfig> config;  // absent for a model file
  std::vector<StateKind> state_kinds;       // a model file's own
  std::int32_t mtp_num_layers = 0;          // that the file mentions; not part of the model
  // {"format": "libplan-model-origin", "version": 1, "name": ..., "content": ...} on one line, keys
  // of the content sorted: reading it with the same options gives an equal Model.
  std::string origin_json;
};

// Ascending.
std::vector<std::string> builtin_model_names();

// Error(Unreadable) for what is neither a built-in name nor a readable file; otherwise as
// parse_model. The model's name is the built-in name, or the file's name without ".json" and
// ".config" (the folder's for a plain config.json), unless the content has one.
ModelInput read_model(const std::string& name_or_path, const ModelOptions& options);

// The same from text. Error(BadInput), Error(Unsupported) with `source_name` and JSON pointer.
ModelInput parse_model(std::string_view json, const std::string& source_name,
                       const std::string& model_name, const ModelOptions& options);

}  // namespace plan
