// The symbolic run over all ranks, window by window: what every send carries, what every scratch
// byte holds, and whether each write puts the right elements into its target. V306, V307 (scratch),
// V310, V314 to V317, V402.
#pragma once

#include <vector>

#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"
#include "libplan/verify/geometry.h"
#include "libplan/verify/messages.h"

namespace plan::verify {

void check_contents(const ir::Schedule& schedule, const std::vector<ProgramPieces>& pieces,
                    const std::vector<Match>& matches, Budget& budget, Findings& findings,
                    Report& report);

}  // namespace plan::verify
