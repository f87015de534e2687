// Storages: allocated once, freed once, touched only while they live; aliases; accesses inside
// their storage; the peak of each rank. V301 to V305, V311, V313, V4xx.
#pragma once

#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"

namespace plan::verify {

void check_lifetimes(const ir::Schedule& schedule, const Options& options, Findings& findings,
                     Report& report);

}  // namespace plan::verify
