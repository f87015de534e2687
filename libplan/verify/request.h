// Is this the plan of these inputs? Digests, tensors, and the storages of every rank against the
// layouts. V101 to V108.
#pragma once

#include "libplan/layout/layout.h"
#include "libplan/schedule/ir.h"
#include "libplan/verify/findings.h"

namespace plan::verify {

void check_request(const ir::Schedule& schedule, const Layout& source, const Layout& target,
                   const Options& options, Findings& findings);

}  // namespace plan::verify
