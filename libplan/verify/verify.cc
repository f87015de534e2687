#include "libplan/verify/verify.h"

#include "libplan/verify/contents.h"
#include "libplan/verify/coverage.h"
#include "libplan/verify/findings.h"
#include "libplan/verify/geometry.h"
#include "libplan/verify/lifetime.h"
#include "libplan/verify/messages.h"
#include "libplan/verify/request.h"
#include "libplan/verify/structure.h"

namespace plan::verify {
namespace {

// Slices of box shape need a few parts each; the rest allows for layouts that tear boxes apart.
Budget budget_of(const ir::Schedule& schedule) {
  Budget budget;
  budget.parts = 500'000;
  for (const ir::Program& program : schedule.programs) {
    const std::size_t sum = program.storages.size() + program.pieces.size() +
                            program.copies.size() + program.fills.size() + program.converts.size() +
                            program.slices.size();
    budget.parts += 64 * static_cast<std::int64_t>(sum);
  }
  return budget;
}

}  // namespace

Report verify(const ir::Schedule& schedule, const Layout& source, const Layout& target,
              const Options& options) {
  Report report;
  report.complete = schedule.programs.size() == schedule.ranks.size();
  Findings findings(report, options);
  check_structure(schedule, findings);
  if (!findings.empty()) return report;  // the passes below follow indices without looking

  check_request(schedule, source, target, options, findings);
  const std::vector<Match> matches = check_messages(schedule, findings);
  check_progress(schedule, matches, findings);
  check_lifetimes(schedule, options, findings, report);

  for (const ir::Program& program : schedule.programs) {
    report.messages += static_cast<std::int64_t>(program.sends.size());
  }
  std::vector<ProgramPieces> pieces;
  for (const ir::Program& program : schedule.programs) pieces.emplace_back(program);
  Budget budget = budget_of(schedule);
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    check_coverage(schedule, schedule.programs[p], pieces[p], budget, findings);
  }
  if (!budget.exhausted()) check_contents(schedule, pieces, matches, budget, findings, report);
  return report;
}

}  // namespace plan::verify
