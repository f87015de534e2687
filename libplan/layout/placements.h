// The geometry of torch's DTensor: which indices of a tensor the member of a device mesh holds.
//
// In: a logical shape, the sizes of the mesh, one placement for each mesh axis, a mesh coordinate.
// Out: for each dimension the runs of indices held, in local order; the local tensor is exactly the
// product of the runs. Example: 10 indices on a 2 x 2 mesh under (SS(0,2), S(0)): (0, 0) holds 0-2,
// (0, 1) holds 5-7, (1, 0) holds 3-4, (1, 1) holds 8-9.
//
// Source: torch 2.11, distributed/tensor and distributed/fsdp; compared with dumps of both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libplan/base/box.h"

namespace plan {

enum class PlacementKind : std::uint8_t { Replicate, Shard, StridedShard, Partial };

struct Placement {
  PlacementKind kind = PlacementKind::Replicate;
  int dim = 0;                    // Shard, StridedShard; negative: from the last dimension on
  std::int64_t split_factor = 1;  // StridedShard: pieces that are cut one by one
  std::string reduce_op;          // Partial
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Reads "R", "S(dim)", "SS(dim,split_factor)" or "P(op)"; blanks may follow a comma.
// Error(BadInput) with `place` for other text.
Placement parse_placement(std::string_view text, const std::string& place);

// "S(0)": what parse_placement reads.
std::string to_string(const Placement& placement);

// The indices that one mesh member holds.
struct LocalContent {
  std::vector<std::vector<Interval>> runs;  // per dimension, in local order; none if it is empty

  bool empty() const;  // never for a scalar
  Dims local_shape() const;
};

// The placements with dimensions from 0 on. Error(BadInput) with `place` (the tensor) unless there
// is one for each mesh axis, each dimension exists and each split factor is positive;
// Error(Unsupported) names mesh axis and reduce op of a Partial, whose members hold terms of a sum
// and not parts of the tensor.
std::vector<Placement> checked_placements(const Dims& shape, std::int32_t mesh_axes,
                                          std::vector<Placement> placements,
                                          const std::string& place);

// Coordinates of the member at `position` of a row-major mesh.
std::vector<std::int32_t> mesh_coordinate(const std::vector<std::int32_t>& mesh_sizes,
                                          std::int32_t position);

// What distribute_tensor's local cut gives the member at `coordinate`. Mesh axes cut from left to
// right, each what the earlier ones left. Shard: n indices over m members go in chunks of
// ceil(n / m), so trailing members may hold less or nothing. StridedShard: split_factor pieces of
// ceil(n / split_factor), each cut like that; a member holds its part of every piece.
// `placements` are checked ones. Error(Unsupported) beyond 65536 runs in a dimension.
LocalContent dtensor_content(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                             const std::vector<Placement>& placements,
                             const std::vector<std::int32_t>& coordinate);

// The mesh axis that FSDP2 cuts: the first one that shards; -1 if none does (a parameter that
// fully_shard was told to ignore).
int fsdp2_axis(const std::vector<Placement>& placements);

// Refuses what fully_shard refuses or never makes, with `place` (the tensor): a cut of a dimension
// other than 0 that is not even, and a placement of its axis other than SS(d,f) with f the product
// of the later axes that shard d, or S(d) if none does. Error(BadInput).
void check_fsdp2(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                 const std::vector<Placement>& placements, const std::string& place);

// What FSDP2 really stores: the other axes (tensor or expert parallel) cut first, from left to
// right, then fsdp2_axis() cuts the local shard, plainly also where the placement is strided. The
// member takes chunk `coordinate[fsdp2_axis()]`, which the caller must count among the members of
// the shard group *sorted by rank*. Differs from dtensor_content on uneven tails: 7 rows over 3 x 2
// under (SS(0,2), S(0)) leave (2, 0) without rows, where dtensor_content gives it row 6.
LocalContent fsdp2_content(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                           const std::vector<Placement>& placements,
                           const std::vector<std::int32_t>& coordinate);

}  // namespace plan
