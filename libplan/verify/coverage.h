// Per rank and storage of state: every target element is written exactly once, before it is read;
// source bytes are not overwritten while they are needed. V306 to V309, V312, V317.
#pragma once

#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"
#include "libplan/verify/geometry.h"

namespace plan::verify {

void check_coverage(const ir::Schedule& schedule, const ir::Program& program,
                    const ProgramPieces& pieces, Budget& budget, Findings& findings);

}  // namespace plan::verify
