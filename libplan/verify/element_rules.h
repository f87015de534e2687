// Which content may be written where: the element itself, and the few that may stand for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libplan/schedule/ir.h"
#include "libplan/verify/content.h"

namespace plan::verify {

struct Verdict {
  std::string_view rule;  // empty: right, or already reported
  std::string message;
};

// * An element may be written in its own place only; `param` may also come from `main_param`, cast.
// * A row of vocabulary padding may be filled, or be a copy of the last true row.
// * Bytes that carry no state may be filled and not otherwise written.
class ElementRules {
 public:
  explicit ElementRules(const ir::Schedule& schedule);

  // `found` is about to be written where `wanted` belongs; both have the same number of bytes.
  Verdict judge(const Span& found, const Span& wanted) const;

  // "w, exp_avg, [0, 2) x [0, 4) (fp32)"
  std::string describe(const Span& span) const;

 private:
  const ir::TensorEntry& tensor(TensorId id) const;
  bool is_same_state(const Span& found, const Span& wanted) const;
  bool is_last_row(const Span& found, const Span& wanted) const;

  const ir::Schedule& schedule_;
  std::vector<TensorId> base_of_padding_;  // per tensor; invalid for all but padding
  StateId param_;
  StateId main_param_;
};

}  // namespace plan::verify
