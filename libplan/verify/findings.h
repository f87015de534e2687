// Collects Diagnostics, at most a given number of each rule.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "libplan/verify/verify.h"

namespace plan::verify {

class Findings {
 public:
  Findings(Report& report, const Options& options) : report_(&report), options_(&options) {}

  void add(Diagnostic diagnostic);
  bool empty() const { return report_->findings.empty(); }

 private:
  Report* report_;
  const Options* options_;
  std::map<std::string, std::size_t> count_of_rule_;
};

}  // namespace plan::verify
