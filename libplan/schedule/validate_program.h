// The part of validate() that looks at one rank's program; see validate.h for the rules.
#pragma once

#include "libplan/schedule/ir.h"

namespace plan {

// The head of the schedule (ranks, tensors, states, numbers) has been checked.
void validate_program(const ir::Schedule& schedule, const ir::Program& program);

}  // namespace plan
