#include "libplan/verify/verify.h"

#include <iostream>

#include "libplan/base/json_tree.h"
#include "libplan/base/quantity.h"
#include "libplan/schedule/plan_file.h"
#include "tools/inputs.h"
#include "tools/progress.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

std::string to_json(const verify::Diagnostic& finding) {
  std::string text =
      "{\"rule\": " + json_quote(finding.rule) + ", \"message\": " + json_quote(finding.message);
  if (finding.rank) text += ", \"rank\": " + std::to_string(finding.rank->value);
  if (finding.window) text += ", \"window\": " + std::to_string(*finding.window);
  if (!finding.op.empty()) text += ", \"op\": " + json_quote(finding.op);
  if (!finding.tensor.empty()) text += ", \"tensor\": " + json_quote(finding.tensor);
  if (!finding.state.empty()) text += ", \"state\": " + json_quote(finding.state);
  if (finding.box) text += ", \"box\": " + json_quote(to_string(*finding.box));
  return text + "}";
}

std::string to_json(const verify::Report& report) {
  std::string text =
      std::string("{\"proved\": ") + (report.ok() && report.complete ? "true" : "false") +
      ", \"complete\": " + (report.complete ? "true" : "false") +
      ", \"messages\": " + std::to_string(report.messages) +
      ", \"checked_bytes\": " + std::to_string(report.checked_bytes) + ", \"findings\": [";
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    text += (i > 0 ? ",\n " : "\n ") + to_json(report.findings[i]);
  }
  return text + "]}\n";
}

void print(const verify::Report& report) {
  for (const verify::Diagnostic& finding : report.findings) std::cout << to_string(finding) << "\n";
  if (report.suppressed > 0)
    std::cout << "and " << report.suppressed << " more findings of the same rules\n";
  if (!report.ok()) {
    std::cout << "not proved: " << report.findings.size() << " findings\n";
  } else if (report.complete) {
    std::cout << "proved: every target element is written once with the right value ("
              << bytes_text(report.checked_bytes) << "), " << report.messages
              << " messages match, no wait cycle, every access in bounds\n";
  } else {
    std::cout << "this part is right as far as it can be seen without the other ranks' programs\n";
  }
}

// Digests of inputs given beside the plan; the embedded request decides what is not given.
ir::Digests expected_digests(const VerifyArgs& args, const ir::Digests& embedded) {
  return has_switch(args.inputs) ? resolve(read_request(args.inputs)).digests : embedded;
}

}  // namespace

int run_verify_verb(const VerifyArgs& args) {
  const ir::Schedule schedule = read_plan(args.plan);
  const Resolved resolved = resolve(request_of_plan(schedule, args.plan));
  verify::Options options;
  options.expected_digests = expected_digests(args, resolved.digests);
  if (!args.inputs.memory_limit.empty())
    options.memory_limit = parse_size_bytes(args.inputs.memory_limit);
  Progress progress("verifying");
  const verify::Report report = verify::verify(schedule, resolved.source, resolved.target, options);
  progress.done();
  if (args.json) {
    std::cout << to_json(report);
  } else {
    print(report);
  }
  return report.ok() ? 0 : 1;
}

}  // namespace plan::tools
