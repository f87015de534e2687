// Compares everything that a golden layout case states with what libplan works out for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/layout/golden_case.h"

namespace plan {

// One field of a case: how many values were compared, and what differed (the first few).
class FieldResult {
 public:
  explicit FieldResult(std::string field) : field_(std::move(field)) {}

  void expect(bool same, const std::string& what) {
    ++compared_;
    if (same) return;
    ++differing_;
    if (faults_.size() < 5) faults_.push_back(what);
  }
  template <class A, class B>
  void equal(const A& ours, const B& golden, const std::string& what) {
    if (ours == golden) {
      ++compared_;
    } else {
      expect(false, what + ": ours " + show(ours) + ", golden " + show(golden));
    }
  }

  const std::string& field() const { return field_; }
  std::int64_t compared() const { return compared_; }
  std::int64_t differing() const { return differing_; }
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  static std::string show(const std::string& text) { return text; }
  static std::string show(const Dims& dims) { return to_string(dims); }
  static std::string show(std::int64_t value) { return std::to_string(value); }
  template <class T>
  static std::string show(const std::vector<T>& list) {
    std::string text = "[";
    for (const T& item : list) text += " " + show(item);
    return text + " ]";
  }

  std::string field_;
  std::int64_t compared_ = 0;
  std::int64_t differing_ = 0;
  std::vector<std::string> faults_;
};

// Padded vocabulary, groups, coordinates, parameters, attributes, checkpoint shards, replica ids,
// buffers, owned ranges, optimizer.
std::vector<FieldResult> compare_placement(const GoldenCase& golden);

// Element by element: what lies where in the storages of megatron_layout().
std::vector<FieldResult> compare_shard_map(const GoldenCase& golden);

}  // namespace plan
