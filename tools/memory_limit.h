// --memory-limit and --resident-bytes.
#pragma once

#include "libplan/schedule/ir.h"
#include "tools/verbs.h"

namespace plan::tools {

// Error(Infeasible) if some rank's storages and staging, with the resident bytes, pass the limit;
// the message states the least limit that this plan meets. Nothing without --memory-limit.
void require_memory_limit(const ir::Schedule& schedule, const InputArgs& args);

}  // namespace plan::tools
