#include "libplan/verify/findings.h"

namespace plan::verify {

void Findings::add(Diagnostic diagnostic) {
  if (count_of_rule_[diagnostic.rule]++ < options_->max_findings_per_rule) {
    report_->findings.push_back(std::move(diagnostic));
  } else {
    ++report_->suppressed;
  }
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string text = diagnostic.rule;
  if (diagnostic.rank) text += " rank " + std::to_string(diagnostic.rank->value);
  if (diagnostic.window) text += " window " + std::to_string(*diagnostic.window);
  if (!diagnostic.op.empty()) text += " " + diagnostic.op;
  text += ": " + diagnostic.message;
  if (!diagnostic.tensor.empty()) {
    text += " (tensor " + diagnostic.tensor;
    if (!diagnostic.state.empty()) text += ", " + diagnostic.state;
    if (diagnostic.box) text += ", " + plan::to_string(*diagnostic.box);
    text += ")";
  }
  return text;
}

}  // namespace plan::verify
