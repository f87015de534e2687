#include "libplan/layout/placements.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "libplan/base/checked.h"
#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"

namespace plan {
namespace {

using Runs = std::vector<Interval>;

constexpr std::size_t kMaxRuns = std::size_t{1} << 16;

std::int64_t length_of(const Runs& runs) {
  std::int64_t length = 0;
  for (const Interval& run : runs) length += run.length();
  return length;
}

// Appends the indices at the places [places.begin, places.end) of `from`; neighbours become one.
void append_places(const Runs& from, Interval places, Runs& to) {
  std::int64_t place = 0;
  for (const Interval& run : from) {
    const Interval common = intersect({place, place + run.length()}, places);
    const Interval found{run.begin + (common.begin - place), run.begin + (common.end - place)};
    place += run.length();
    if (common.empty()) continue;
    if (!to.empty() && to.back().end == found.begin) {
      to.back().end = found.end;
    } else {
      to.push_back(found);
    }
  }
}

// Part `index` of `places` cut `ways` times.
Interval chunk(Interval places, std::int64_t ways, std::int64_t index) {
  const std::int64_t size = ceil_div(places.length(), ways);
  const auto border = [&](std::int64_t i) {
    // i * size is below 2^63 for all i that matter, but not for a mesh wider than the dimension.
    return i >= ceil_div(places.length(), std::max<std::int64_t>(size, 1))
               ? places.end
               : places.begin + i * size;
  };
  return {border(index), border(index + 1)};
}

Runs cut(const Runs& runs, std::int64_t pieces, std::int64_t ways, std::int64_t index) {
  const Interval all{0, length_of(runs)};
  Runs kept;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const Interval places = chunk(all, pieces, piece);
    if (places.empty()) break;  // only trailing pieces are empty
    append_places(runs, chunk(places, ways, index), kept);
    if (kept.size() > kMaxRuns) {
      throw Error(ErrorCode::Unsupported,
                  "expected at most " + std::to_string(kMaxRuns) +
                      " runs of indices for one member of a mesh, found more under split factor " +
                      std::to_string(pieces));
    }
  }
  return kept;
}

bool shards(const Placement& placement) {
  return placement.kind == PlacementKind::Shard || placement.kind == PlacementKind::StridedShard;
}

LocalContent whole(const Dims& shape) {
  LocalContent content;
  for (const std::int64_t extent : shape) {
    content.runs.push_back(extent > 0 ? Runs{{0, extent}} : Runs{});
  }
  return content;
}

void cut_axis(const Placement& placement, std::int32_t ways, std::int32_t index,
              LocalContent& content) {
  if (!shards(placement)) return;
  Runs& runs = content.runs[static_cast<std::size_t>(placement.dim)];
  runs = cut(runs, placement.split_factor, ways, index);
}

// Takes "name(" and ")" off; empty if the text has another form.
std::optional<std::string_view> inside(std::string_view text, std::string_view name) {
  const bool fits = text.size() > name.size() + 2 && text.starts_with(name) &&
                    text[name.size()] == '(' && text.back() == ')';
  if (!fits) return std::nullopt;
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

template <class Integer>
bool read_integer(std::string_view text, Integer& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

std::string axis_text(std::size_t axis) { return "mesh axis " + std::to_string(axis); }

}  // namespace

Placement parse_placement(std::string_view text, const std::string& place) {
  Placement placement;
  if (text == "R") return placement;
  if (const auto dim = inside(text, "S"); dim && read_integer(*dim, placement.dim)) {
    placement.kind = PlacementKind::Shard;
    return placement;
  }
  if (const auto both = inside(text, "SS")) {
    const std::size_t comma = both->find(',');
    if (comma != std::string_view::npos) {
      std::string_view factor = both->substr(comma + 1);
      factor.remove_prefix(std::min(factor.find_first_not_of(' '), factor.size()));
      placement.kind = PlacementKind::StridedShard;
      if (read_integer(both->substr(0, comma), placement.dim) &&
          read_integer(factor, placement.split_factor)) {
        return placement;
      }
    }
  }
  if (const auto op = inside(text, "P")) return {PlacementKind::Partial, 0, 1, std::string(*op)};
  throw Error(ErrorCode::BadInput,
              "expected a placement \"R\", \"S(dim)\" or \"SS(dim,split_factor)\", found " +
                  json_quote(text.substr(0, 80)),
              place);
}

std::string to_string(const Placement& placement) {
  const std::string dim = std::to_string(placement.dim);
  switch (placement.kind) {
    case PlacementKind::Shard: return "S(" + dim + ")";
    case PlacementKind::StridedShard:
      return "SS(" + dim + "," + std::to_string(placement.split_factor) + ")";
    case PlacementKind::Partial: return "P(" + placement.reduce_op + ")";
    case PlacementKind::Replicate: break;
  }
  return "R";
}

bool LocalContent::empty() const {
  return std::any_of(runs.begin(), runs.end(), [](const Runs& dim) { return dim.empty(); });
}

Dims LocalContent::local_shape() const {
  Dims shape;
  for (const Runs& dim : runs) shape.push_back(length_of(dim));
  return shape;
}

std::vector<Placement> checked_placements(const Dims& shape, std::int32_t mesh_axes,
                                          std::vector<Placement> placements,
                                          const std::string& place) {
  if (static_cast<std::int64_t>(placements.size()) != mesh_axes) {
    throw Error(ErrorCode::BadInput,
                "expected " + std::to_string(mesh_axes) +
                    " placements, one for each mesh axis, found " +
                    std::to_string(placements.size()),
                place);
  }
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    Placement& placement = placements[axis];
    if (placement.kind == PlacementKind::Partial) {
      throw Error(ErrorCode::Unsupported,
                  axis_text(axis) +
                      ": expected a Shard or Replicate, found Partial with reduce op " +
                      placement.reduce_op + ", whose members hold terms and not parts",
                  place);
    }
    if (!shards(placement)) continue;
    const bool exists = placement.dim >= -shape.count && placement.dim < shape.count;
    if (!exists || placement.split_factor < 1) {
      throw Error(ErrorCode::BadInput,
                  axis_text(axis) + ": expected a dimension of a tensor with " +
                      std::to_string(shape.count) +
                      " dimensions and a positive split factor, found " + to_string(placement),
                  place);
    }
    if (placement.dim < 0) placement.dim += shape.count;
  }
  return placements;
}

std::vector<std::int32_t> mesh_coordinate(const std::vector<std::int32_t>& mesh_sizes,
                                          std::int32_t position) {
  std::vector<std::int32_t> coordinate(mesh_sizes.size(), 0);
  for (std::size_t axis = mesh_sizes.size(); axis-- > 0;) {
    coordinate[axis] = position % mesh_sizes[axis];
    position /= mesh_sizes[axis];
  }
  return coordinate;
}

LocalContent dtensor_content(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                             const std::vector<Placement>& placements,
                             const std::vector<std::int32_t>& coordinate) {
  PLAN_CHECK(placements.size() == mesh_sizes.size() && coordinate.size() == mesh_sizes.size());
  LocalContent content = whole(shape);
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    cut_axis(placements[axis], mesh_sizes[axis], coordinate[axis], content);
  }
  return content;
}

int fsdp2_axis(const std::vector<Placement>& placements) {
  const auto first = std::find_if(placements.begin(), placements.end(), shards);
  return first == placements.end() ? -1 : static_cast<int>(first - placements.begin());
}

void check_fsdp2(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                 const std::vector<Placement>& placements, const std::string& place) {
  const int axis = fsdp2_axis(placements);
  if (axis < 0) return;
  const Placement& cut = placements[static_cast<std::size_t>(axis)];
  std::int64_t later_cuts = 1;
  bool later = false;
  for (std::size_t i = static_cast<std::size_t>(axis) + 1; i < placements.size(); ++i) {
    if (!shards(placements[i]) || placements[i].dim != cut.dim) continue;
    later = true;
    later_cuts = checked_mul(later_cuts, mesh_sizes[i]);
  }
  const Placement made{later ? PlacementKind::StridedShard : PlacementKind::Shard, cut.dim,
                       later_cuts, ""};
  if (cut != made) {
    throw Error(ErrorCode::BadInput,
                axis_text(static_cast<std::size_t>(axis)) + ": FSDP2 places " + to_string(made) +
                    " there, found " + to_string(cut),
                place);
  }
  if (cut.dim == 0) return;
  std::vector<Placement> others = placements;
  others[static_cast<std::size_t>(axis)] = Placement{};
  std::int32_t members = 1;
  for (const std::int32_t size : mesh_sizes) members = checked_int32(checked_mul(members, size));
  const std::int32_t ways = mesh_sizes[static_cast<std::size_t>(axis)];
  for (std::int32_t member = 0; member < members; ++member) {
    const std::vector<std::int32_t> coordinate = mesh_coordinate(mesh_sizes, member);
    const LocalContent content = dtensor_content(shape, mesh_sizes, others, coordinate);
    const std::int64_t extent = content.local_shape()[cut.dim];
    if (extent % ways == 0) continue;
    throw Error(ErrorCode::BadInput,
                "FSDP2 cuts dimension " + std::to_string(cut.dim) + " only evenly, found extent " +
                    std::to_string(extent) + " over " + std::to_string(ways) + " ranks",
                place);
  }
}

LocalContent fsdp2_content(const Dims& shape, const std::vector<std::int32_t>& mesh_sizes,
                           const std::vector<Placement>& placements,
                           const std::vector<std::int32_t>& coordinate) {
  const int axis = fsdp2_axis(placements);
  if (axis < 0) return whole(shape);
  const std::size_t at = static_cast<std::size_t>(axis);
  std::vector<Placement> others = placements;
  others[at] = Placement{};
  LocalContent content = dtensor_content(shape, mesh_sizes, others, coordinate);
  const Placement plain{PlacementKind::Shard, placements[at].dim, 1, ""};
  cut_axis(plain, mesh_sizes[at], coordinate[at], content);
  return content;
}

}  // namespace plan
