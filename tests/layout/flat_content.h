// Flat global indices that a member holds, in the order of its local tensor: what torch's dumps
// hold, and what the shards of a storage say.
#pragma once

#include <cstdint>
#include <vector>

#include "libplan/layout/layout.h"
#include "libplan/layout/placements.h"

namespace plan::test {

std::vector<std::int64_t> flat_of(const Dims& shape, const LocalContent& content);

// By element of the storage; -1 where no shard lies. Canonical and logical shapes of a tensor have
// the same flat indices. All shards must be of one tensor.
std::vector<std::int64_t> flat_of(const Layout& layout, const Storage& storage);

}  // namespace plan::test
