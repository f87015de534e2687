// A layout case dumped from Megatron-Core (tests/golden/megatron/README.md), and our inputs for it.
#pragma once

#include <string>
#include <vector>

#include "libplan/base/json_tree.h"
#include "libplan/layout/checkpoint_view.h"
#include "libplan/layout/megatron.h"
#include "libplan/model/transformer.h"

namespace plan {

struct GoldenCase {
  std::string name;
  JsonDocument document;
  Model model;
  Strategy strategy;
  MegatronOptions options;
  CheckpointOptions checkpoint;

  JsonCursor root() const { return JsonCursor::root(document); }
  // True if Megatron-Core itself failed when it built the optimizer.
  bool optimizer_failed() const { return !root().at("notes").elements().empty(); }
};

// Of tests/, wherever the test program runs.
std::string test_folder();

// Names without ".json", ascending.
std::vector<std::string> golden_case_names();

GoldenCase read_golden_case(const std::string& name);

std::vector<std::int64_t> read_integers(const JsonCursor& list);

// The built-in kinds of state of these names.
std::vector<StateKind> state_kinds(const std::vector<std::string>& names);

}  // namespace plan
