#include "libplan/verify/element_rules.h"

#include <map>

namespace plan::verify {

ElementRules::ElementRules(const ir::Schedule& schedule) : schedule_(schedule) {
  std::map<std::string_view, std::int32_t> tensor_of_name;
  for (std::size_t i = 0; i < schedule.tensors.size(); ++i) {
    tensor_of_name.emplace(schedule.tensors[i].name, static_cast<std::int32_t>(i));
  }
  constexpr std::string_view kPadding = ".padding";
  for (const ir::TensorEntry& entry : schedule.tensors) {
    std::string_view name = entry.name;
    TensorId base;
    if (entry.padding && name.ends_with(kPadding)) {
      name.remove_suffix(kPadding.size());
      const auto it = tensor_of_name.find(name);
      if (it != tensor_of_name.end()) base = TensorId(it->second);
    }
    base_of_padding_.push_back(base);
  }
  for (std::size_t i = 0; i < schedule.states.size(); ++i) {
    const StateId state(static_cast<std::int32_t>(i));
    if (schedule.states[i] == "param") param_ = state;
    if (schedule.states[i] == "main_param") main_param_ = state;
  }
}

const ir::TensorEntry& ElementRules::tensor(TensorId id) const {
  return schedule_.tensors[static_cast<std::size_t>(id.value)];
}

std::string ElementRules::describe(const Span& span) const {
  if (span.content == Content::Fill) return "a fill pattern";
  if (span.content == Content::Opaque) return "opaque bytes";
  if (span.content != Content::Element) return "a part of an element";
  return tensor(span.tensor).name + ", " +
         schedule_.states[static_cast<std::size_t>(span.state.value)] + ", " + to_string(span.box) +
         " (" + std::string(name_of(span.dtype)) + ")";
}

bool ElementRules::is_same_state(const Span& found, const Span& wanted) const {
  return found.state == wanted.state ||
         (main_param_.valid() && found.state == main_param_ && wanted.state == param_);
}

bool ElementRules::is_last_row(const Span& found, const Span& wanted) const {
  const TensorId base = base_of_padding_[static_cast<std::size_t>(wanted.tensor.value)];
  if (!base.valid() || found.tensor != base) return false;
  if (found.box.count != wanted.box.count || found.box.count == 0) return false;
  const std::int64_t rows = tensor(base).shape[0];
  if (found.box[0] != Interval{rows - 1, rows} || wanted.box[0].length() != 1) return false;
  Box same = found.box;
  same[0] = wanted.box[0];
  return same == wanted.box;
}

Verdict ElementRules::judge(const Span& found, const Span& wanted) const {
  if (wanted.content == Content::Nothing) {
    if (found.content == Content::Fill) return {};  // alignment may be cleared
    return {"V315", "writes " + std::to_string(wanted.bytes) + " bytes that carry no state"};
  }
  if (found.content == Content::Unknown) return {};
  if (wanted.content == Content::CutInside || found.content == Content::CutInside) {
    return {"V402", "writes a part of an element"};
  }
  if (found.content == Content::Fill) {
    if (tensor(wanted.tensor).padding) return {};
    return {"V314", "fills elements that must be moved"};
  }
  const bool is_right =
      found.content == Content::Element && is_same_state(found, wanted) &&
      ((found.tensor == wanted.tensor && found.box == wanted.box) || is_last_row(found, wanted));
  if (!is_right) return {"V310", "writes " + describe(found) + " in the wrong place"};
  if (found.dtype == wanted.dtype) return {};
  return {"V316", "writes " + std::string(name_of(found.dtype)) + " values, expected " +
                      std::string(name_of(wanted.dtype))};
}

}  // namespace plan::verify
