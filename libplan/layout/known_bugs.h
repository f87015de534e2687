// Faults of Megatron-Core that a layout reproduces, because running jobs have them.
#pragma once

#include <string>
#include <vector>

#include "libplan/layout/megatron.h"

namespace plan {

// One sentence for each fault of the version that this placement meets: layers that are built twice
// or not at all, experts in dense buffers, a misplaced shared embedding, optimizer instances that
// are paired differently for dense and expert state.
std::vector<std::string> known_bugs(const Model& model, const MegatronPlacement& placement,
                                    MegatronVersion version);

}  // namespace plan
