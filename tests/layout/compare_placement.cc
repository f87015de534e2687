#include <algorithm>
#include <array>
#include <map>

#include "libplan/base/error.h"
#include "tests/layout/compare_golden.h"

namespace plan {
namespace {

using Group = std::vector<std::int32_t>;

struct GroupName {
  const char* golden;
  const char* ours;
  std::int32_t GridCoords::*index;  // null: only the group tells the index
};
constexpr std::array kGroups{GroupName{"tp", "tp", &GridCoords::tp},
                             GroupName{"pp", "pp", &GridCoords::pp},
                             GroupName{"cp", "cp", &GridCoords::cp},
                             GroupName{"dp", "dp", &GridCoords::dp},
                             GroupName{"dp_cp", "dp-cp", &GridCoords::dp_cp},
                             GroupName{"intra_dp_cp", "intra-dp-cp", &GridCoords::intra_dp_cp},
                             GroupName{"ep", "ep", &GridCoords::ep},
                             GroupName{"etp", "etp", &GridCoords::etp},
                             GroupName{"edp", "edp", &GridCoords::edp},
                             GroupName{"intra_edp", "intra-edp", &GridCoords::intra_edp},
                             GroupName{"mp", "tp-pp", nullptr},
                             GroupName{"embd", "embedding", nullptr},
                             GroupName{"inter_dist_opt", "inter-edp", nullptr}};

Dims read_dims(const JsonCursor& list) { return Dims(read_integers(list)); }

std::vector<std::string> group_list(const JsonCursor& group) {
  std::vector<std::string> text;
  for (const std::int64_t rank : read_integers(group)) text.push_back(std::to_string(rank));
  return text;
}

class Comparison {
 public:
  explicit Comparison(const GoldenCase& golden)
      : golden_(golden),
        root_(golden.root()),
        placement_(place_megatron(golden.model, golden.strategy, golden.options)),
        param_defs_(root_.at("param_defs").elements()),
        buffer_defs_(root_.at("buffer_defs").elements()),
        group_defs_(root_.at("group_defs").elements()) {}

  std::vector<FieldResult> run() {
    vocabulary();
    const std::vector<JsonCursor> ranks = root_.at("ranks").elements();
    coords_.equal(static_cast<std::int64_t>(ranks.size()),
                  std::int64_t{placement_.grid.world_size()}, "number of ranks");
    for (const GroupName& name : kGroups) groups_of_[name.ours] = placement_.grid.groups(name.ours);
    for (const JsonCursor& rank : ranks) compare_rank(rank);
    optimizer();
    return {vocab_,  groups_,   coords_,  params_, attrs_,
            shards_, replicas_, buffers_, owned_,  optimizer_};
  }

 private:
  void vocabulary() {
    const MegatronChunk& first = placement_.stages.front().front();
    for (const LocalParam& param : first.params) {
      const Tensor& tensor = golden_.model.tensors[static_cast<std::size_t>(param.tensor.value)];
      if (tensor.vocab_axis < 0) continue;
      vocab_.equal(param.extents[tensor.vocab_axis] * placement_.cuts.tp,
                   root_.at("padded_vocab").as_int64(1, INT64_MAX), param.name);
    }
  }

  void compare_rank(const JsonCursor& rank) {
    const std::int32_t number = rank.at("rank").as_int32(0, INT32_MAX);
    place_ = "rank " + std::to_string(number);
    const GridCoords coords = placement_.grid.coords(number);
    compare_groups(rank, number, coords);
    const std::vector<MegatronChunk>& ours = placement_.stages[static_cast<std::size_t>(coords.pp)];
    const std::vector<JsonCursor> chunks = rank.at("chunks").elements();
    params_.equal(static_cast<std::int64_t>(ours.size()), static_cast<std::int64_t>(chunks.size()),
                  place_ + " chunks");
    for (std::size_t c = 0; c < std::min(ours.size(), chunks.size()); ++c) {
      place_ = "rank " + std::to_string(number) + " chunk " + std::to_string(c);
      compare_params(ours[c], chunks[c], coords);
      compare_buffers(ours[c], chunks[c], coords);
    }
  }

  void compare_groups(const JsonCursor& rank, std::int32_t number, const GridCoords& coords) {
    const JsonCursor groups = rank.at("groups");
    const JsonCursor indices = rank.at("coords");
    for (const GroupName& name : kGroups) {
      const std::string what = place_ + " " + name.golden;
      Group mine;
      for (const Group& group : groups_of_[name.ours]) {
        if (std::find(group.begin(), group.end(), number) != group.end()) mine = group;
      }
      std::vector<std::string> shown;
      for (const std::int32_t member : mine) shown.push_back(std::to_string(member));
      if (const auto def = groups.find(name.golden)) {
        const JsonCursor group = group_defs_[static_cast<std::size_t>(def->as_int32(0, INT32_MAX))];
        groups_.equal(shown, group_list(group), what);
      } else if (std::string(name.golden) == "embd") {
        groups_.expect(mine.empty(), what + ": ours has a group, golden none");
      }
      const auto index = indices.find(name.golden);
      if (!index) continue;
      const std::int64_t golden = index->as_int64(0, INT32_MAX);
      coords_.equal(std::find(mine.begin(), mine.end(), number) - mine.begin(), golden, what);
      if (name.index != nullptr) {
        coords_.equal(std::int64_t{coords.*name.index}, golden, what + " coordinate");
      }
    }
  }

  void compare_params(const MegatronChunk& chunk, const JsonCursor& golden,
                      const GridCoords& coords) {
    const std::vector<JsonCursor> params = golden.at("params").elements();
    params_.equal(static_cast<std::int64_t>(chunk.params.size()),
                  static_cast<std::int64_t>(params.size()), place_ + " number of parameters");
    for (std::size_t i = 0; i < std::min(params.size(), chunk.params.size()); ++i) {
      const std::vector<JsonCursor> entry = params[i].elements();
      const JsonCursor def = param_defs_[static_cast<std::size_t>(entry[0].as_int32(0, INT32_MAX))];
      compare_param(chunk.params[i], def, entry[1], coords);
    }
  }

  void compare_param(const LocalParam& ours, const JsonCursor& def, const JsonCursor& replicas,
                     const GridCoords& coords) {
    const std::string what = place_ + " " + ours.name;
    params_.equal(ours.name, def.at("name").as_string(), what + " name");
    params_.equal(ours.registered_shape, read_dims(def.at("shape")), what + " shape");
    params_.expect(ours.dtype == dtype_from_name(def.at("dtype").as_string()), what + " dtype");
    compare_attributes(ours, def.at("attrs"), what);

    const std::vector<CheckpointShard> shards = checkpoint_shards(
        golden_.model, ours, placement_.cuts, coords, golden_.options.version, golden_.checkpoint);
    const std::vector<JsonCursor> expected = def.at("shards").elements();
    const std::vector<JsonCursor> ids = replicas.elements();
    shards_.equal(static_cast<std::int64_t>(shards.size()),
                  static_cast<std::int64_t>(expected.size()), what + " number of shards");
    for (std::size_t s = 0; s < std::min(shards.size(), expected.size()); ++s) {
      const CheckpointShard& mine = shards[s];
      const JsonCursor& shard = expected[s];
      shards_.equal(mine.key, shard.at("key").as_string(), what + " key");
      shards_.equal(mine.local_shape, read_dims(shard.at("ls")), what + " ls");
      shards_.equal(mine.global_shape, read_dims(shard.at("gs")), what + " gs");
      shards_.equal(mine.global_offset, read_dims(shard.at("go")), what + " go");
      shards_.equal(mine.fragmentation, read_dims(shard.at("fr")), what + " fr");
      shards_.equal(std::int64_t{mine.prepended_axes}, shard.at("pre").as_int64(0, kMaxDims),
                    what + " pre");
      replicas_.equal(std::vector<std::int64_t>(mine.replica_id.begin(), mine.replica_id.end()),
                      read_integers(ids.at(s)), what + " replica_id");
    }
  }

  void compare_attributes(const LocalParam& ours, const JsonCursor& golden,
                          const std::string& what) {
    golden.expect_object({"allreduce", "tensor_model_parallel", "partition_dim", "partition_stride",
                          "is_embedding_or_output_parameter", "shared_embedding", "shared"});
    const auto flag = [&](const char* key) {
      const std::optional<JsonCursor> value = golden.find(key);
      return value && value->as_bool();
    };
    ParamAttributes expected;
    if (const auto value = golden.find("allreduce")) expected.allreduce = value->as_bool();
    expected.tensor_model_parallel = flag("tensor_model_parallel");
    if (const auto value = golden.find("partition_dim")) {
      expected.partition_dim = value->as_int32(0, kMaxDims);
    }
    if (const auto value = golden.find("partition_stride")) {
      expected.partition_stride = value->as_int32(1, INT32_MAX);
    }
    expected.is_embedding_or_output_parameter = flag("is_embedding_or_output_parameter");
    expected.shared_embedding = flag("shared_embedding");
    expected.shared = flag("shared");
    attrs_.expect(param_attributes(golden_.model, ours, golden_.options.version) == expected,
                  what + " attributes");
  }

  void compare_buffers(const MegatronChunk& chunk, const JsonCursor& golden,
                       const GridCoords& coords) {
    const std::vector<JsonCursor> buffers = golden.at("buffers").elements();
    buffers_.equal(static_cast<std::int64_t>(chunk.buffers.size()),
                   static_cast<std::int64_t>(buffers.size()), place_ + " number of buffers");
    for (std::size_t b = 0; b < std::min(buffers.size(), chunk.buffers.size()); ++b) {
      const std::vector<JsonCursor> entry = buffers[b].elements();
      const JsonCursor def =
          buffer_defs_[static_cast<std::size_t>(entry[0].as_int32(0, INT32_MAX))];
      compare_buffer(chunk, chunk.buffers[b], def);
      compare_owned(chunk, chunk.buffers[b], entry, coords);
    }
  }

  void compare_buffer(const MegatronChunk& chunk, const FlatBuffer& ours, const JsonCursor& def) {
    const std::string what = place_ + " buffer";
    const auto number = [&](const char* key) { return def.at(key).as_int64(0, INT64_MAX); };
    buffers_.equal(std::string(ours.expert ? "expert" : "dense"), def.at("kind").as_string(),
                   what + " kind");
    buffers_.expect(ours.param_dtype == dtype_from_name(def.at("param_dtype").as_string()),
                    what + " param_dtype");
    buffers_.expect(ours.grad_dtype == dtype_from_name(def.at("grad_dtype").as_string()),
                    what + " grad_dtype");
    buffers_.equal(ours.numel, number("numel"), what + " numel");
    buffers_.equal(ours.numel_unpadded, number("numel_unpadded"), what + " numel_unpadded");
    buffers_.equal(std::int64_t{ours.shards}, number("dp_size"), what + " dp_size");

    const std::vector<JsonCursor> buckets = def.at("buckets").elements();
    buffers_.equal(static_cast<std::int64_t>(ours.buckets.size()),
                   static_cast<std::int64_t>(buckets.size()), what + " number of buckets");
    for (std::size_t i = 0; i < std::min(buckets.size(), ours.buckets.size()); ++i) {
      const Bucket& bucket = ours.buckets[i];
      const std::vector<std::int64_t> mine{bucket.range.begin, bucket.range.end,
                                           bucket.numel_unpadded};
      buffers_.equal(mine, read_integers(buckets[i]), what + " bucket " + std::to_string(i));
    }
    const std::vector<JsonCursor> params = def.at("params").elements();
    buffers_.equal(static_cast<std::int64_t>(ours.params.size()),
                   static_cast<std::int64_t>(params.size()), what + " number of parameters");
    for (std::size_t i = 0; i < std::min(params.size(), ours.params.size()); ++i) {
      const FlatParam& flat = ours.params[i];
      const std::vector<JsonCursor> row = params[i].elements();
      const std::string& name = chunk.params[static_cast<std::size_t>(flat.param)].name;
      buffers_.equal(name, row[0].as_string(), what + " parameter " + std::to_string(i));
      const std::vector<std::int64_t> mine{flat.range.begin, flat.range.end, flat.bucket};
      const std::vector<std::int64_t> expected{row[1].as_int64(0, INT64_MAX),
                                               row[2].as_int64(0, INT64_MAX),
                                               row[3].as_int64(0, INT64_MAX)};
      buffers_.equal(mine, expected, what + " " + name);
    }
  }

  void compare_owned(const MegatronChunk& chunk, const FlatBuffer& buffer,
                     const std::vector<JsonCursor>& entry, const GridCoords& coords) {
    const std::int32_t index = buffer.expert ? coords.intra_edp : coords.intra_dp_cp;
    const std::string what = place_ + (buffer.expert ? " expert" : " dense") + " owned";
    owned_.equal(std::int64_t{index}, entry[1].as_int64(0, INT32_MAX), what + ": rank in group");
    const std::vector<JsonCursor> rows = entry[2].elements();
    std::vector<std::vector<std::int64_t>> mine;
    try {
      for (const OwnedRange& range : owned_ranges(chunk, buffer, index)) {
        mine.push_back({range.param, range.bucket, range.in_buffer.begin, range.in_buffer.end,
                        range.in_param.begin, range.in_param.end});
      }
    } catch (const Error& error) {
      owned_.expect(golden_.optimizer_failed() && rows.empty(), what + ": " + error.what());
      optimizer_refused_ = true;
      return;
    }
    std::vector<std::vector<std::int64_t>> expected;
    for (const JsonCursor& row : rows) expected.push_back(read_integers(row));
    owned_.equal(mine, expected, what);
  }

  // Rank 0's optimizers and the parameter shards in each of their groups: no weight decay for
  // one-dimensional parameters and biases.
  void optimizer() {
    if (golden_.optimizer_failed()) {
      optimizer_.expect(optimizer_refused_,
                        "golden: the optimizer failed; ours succeeds on all ranks");
      return;
    }
    std::map<std::pair<bool, bool>, std::int64_t> counts;  // expert, decays
    std::vector<bool> kinds;
    const GridCoords coords = placement_.grid.coords(0);
    for (const MegatronChunk& chunk : placement_.stages.front()) {
      for (const FlatBuffer& buffer : chunk.buffers) {
        if (std::find(kinds.begin(), kinds.end(), buffer.expert) == kinds.end()) {
          kinds.push_back(buffer.expert);
        }
        const std::int32_t index = buffer.expert ? coords.intra_edp : coords.intra_dp_cp;
        for (const OwnedRange& range : owned_ranges(chunk, buffer, index)) {
          const FlatParam& flat = buffer.params[static_cast<std::size_t>(range.param)];
          const LocalParam& param = chunk.params[static_cast<std::size_t>(flat.param)];
          const bool decays = param.registered_shape.count > 1 && !param.name.ends_with(".bias");
          ++counts[{buffer.expert, decays}];
        }
      }
    }
    const std::vector<JsonCursor> optimizers = root_.at("optimizer_rank0").elements();
    optimizer_.equal(static_cast<std::int64_t>(kinds.size()),
                     static_cast<std::int64_t>(optimizers.size()), "number of optimizers");
    for (const JsonCursor& entry : optimizers) {
      for (const JsonCursor& group : entry.at("groups").elements()) {
        const bool expert = group.at("expert").as_bool();
        const bool decays = group.at("wd_mult").as_double() > 0;
        optimizer_.equal(counts[{expert, decays}], group.at("n").as_int64(0, INT64_MAX),
                         std::string(expert ? "expert" : "dense") +
                             " parameters with weight decay " + (decays ? "1" : "0"));
        counts.erase({expert, decays});
      }
      std::vector<std::string> states;
      for (const JsonCursor& state : entry.at("state_keys").elements()) {
        states.push_back(state.as_string());
      }
      std::vector<std::string> ours;
      for (const char* name : {"exp_avg", "exp_avg_sq"}) {
        const StateKind kind = builtin_state_kind(name).value();
        ours.push_back(kind.name + (kind.dtype == Dtype::Float32 ? ":float32" : ":?") + ":1d");
      }
      optimizer_.equal(ours, states, "states");
    }
    for (const auto& [key, count] : counts) {
      optimizer_.expect(count == 0, "ours has a group of parameters that golden lacks");
    }
  }

  const GoldenCase& golden_;
  JsonCursor root_;
  MegatronPlacement placement_;
  std::vector<JsonCursor> param_defs_, buffer_defs_, group_defs_;
  std::map<std::string, std::vector<Group>> groups_of_;
  std::string place_;
  bool optimizer_refused_ = false;
  FieldResult vocab_{"padded_vocab"}, groups_{"groups"}, coords_{"coords"}, params_{"params"},
      attrs_{"attrs"}, shards_{"shards"}, replicas_{"replica_id"}, buffers_{"buffers"},
      owned_{"owned"}, optimizer_{"optimizer"};
};

}  // namespace

std::vector<FieldResult> compare_placement(const GoldenCase& golden) {
  return Comparison(golden).run();
}

}  // namespace plan
