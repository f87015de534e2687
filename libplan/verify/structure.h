// The first pass: every index, count and address of an untrusted Schedule is in its range, so that
// the later passes may follow them. V001 to V010.
#pragma once

#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"

namespace plan::verify {

void check_structure(const ir::Schedule& schedule, Findings& findings);

}  // namespace plan::verify
