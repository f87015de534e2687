// Schedules for the tests of libplan/schedule: valid, and in canonical arrangement.
#pragma once

#include <cstdint>

#include "libplan/schedule/ir.h"

namespace plan {

// Three ranks that use every field of the IR at least once with a value that is not its default.
ir::Schedule every_field();

// The 4 x 4 tensor that moves from rank 0, which holds it whole, to rank 1, which needs rows [2, 4)
// and columns [0, 2).
ir::Schedule four_by_four();

// A schedule of up to four ranks whose numbers are drawn from `seed`; obeys validate(), moves no
// data that makes sense.
ir::Schedule random_schedule(std::uint32_t seed);

}  // namespace plan
