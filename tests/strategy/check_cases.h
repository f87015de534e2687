// Short ways to write strategy lists, models and findings in tests of the rules.
#pragma once

#include <string>
#include <vector>

#include "libplan/strategy/check.h"

namespace plan::check {

// An entry with the three required keys and `more` (", \"key\": value" each).
inline std::string entry(int world, int tp, int pp, const std::string& more = "") {
  return R"({"world_size": )" + std::to_string(world) + R"(, "tensor_model_parallel_size": )" +
         std::to_string(tp) + R"(, "pipeline_model_parallel_size": )" + std::to_string(pp) + more +
         "}";
}

inline std::string key(const std::string& name, const std::string& value) {
  return ", \"" + name + "\": " + value;
}

inline std::string list(const std::vector<std::string>& entries) {
  std::string text = "[";
  for (const std::string& e : entries) text += (text.size() == 1 ? "" : ",\n ") + e;
  return text + "]";
}

// 32 layers, 32 heads in 8 KV groups.
inline ModelFacts dense_facts() {
  ModelFacts facts;
  facts.num_layers = 32;
  facts.hidden = 4096;
  facts.heads = 32;
  facts.kv_groups = 8;
  facts.head_size = 128;
  facts.ffn = 14336;
  facts.vocab = 32000;
  return facts;
}

// The same with 8 experts in every layer.
inline ModelFacts moe_facts() {
  ModelFacts facts = dense_facts();
  facts.has_dense_layer = false;
  facts.experts = 8;
  facts.expert_ffn = 14336;
  return facts;
}

// "S302 error 0/pipeline_model_parallel_size", one per finding.
inline std::vector<std::string> found(const std::string& text, const ModelFacts& facts,
                                      const Options& options) {
  std::vector<std::string> lines;
  for (const Diagnostic& d : check(text, "list.json", facts, options)) {
    lines.push_back(d.rule + " " + std::string(name_of(d.severity)) + " " + d.pointer);
  }
  return lines;
}

inline Options with_version(const std::string& name) {
  Options options;
  options.version = megatron_version_from_name(name);
  return options;
}

}  // namespace plan::check
