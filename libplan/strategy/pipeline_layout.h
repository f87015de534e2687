// The text of `pipeline_model_parallel_layout`, expanded into one string per pipeline position.
//
// In: a string such as "Ettt|(tt|)*29,m|L" (commas dropped, then `(..)*n` without nesting, then
// `x*n`; "|" between positions, E embedding, t decoder layer, m MTP layer, L loss), or a list of
// lists of embedding, decoder, mtp, loss in any case. Out: per position its letters in order, e.g.
// {"Ettt", "tt", ..., "m", "L"}. Source: Megatron-LM's PipelineParallelLayerLayout.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "libplan/base/json_tree.h"

namespace plan {

// Longest expansion that is accepted, in letters and bars; real layouts have a few hundred.
inline constexpr std::int64_t kMaxLayoutLetters = 1 << 20;

struct LayoutFault {
  std::string message;
  TextPosition position;  // of the value, or of the list element that is wrong
};

using ExpandedLayout = std::variant<std::vector<std::string>, LayoutFault>;

// `node` is a string or an array.
ExpandedLayout expand_pipeline_layout(const JsonNode& node);

// The canonical string: positions joined by "|".
std::string join_pipeline_layout(const std::vector<std::string>& positions);

}  // namespace plan
