// A Request as canonical JSON and back.
#include <array>
#include <utility>

#include "libplan/base/error.h"
#include "libplan/base/json_tree.h"
#include "libplan/base/json_words.h"
#include "libplan/layout/layout_json.h"
#include "libplan/model/megatron_version.h"
#include "libplan/model/state_kind_json.h"
#include "libplan/plan.h"

namespace plan {
namespace {

constexpr std::string_view kFormat = "libplan-request";
constexpr std::int32_t kVersion = 1;

constexpr std::array kImpls = {
    Word<TransformerImpl>{"local", TransformerImpl::Local},
    Word<TransformerImpl>{"transformer_engine", TransformerImpl::TransformerEngine},
};
constexpr std::array kPackings = {
    Word<Packing>{"never", Packing::Never},
    Word<Packing>{"always", Packing::Always},
};

std::string bool_text(bool value) { return value ? "true" : "false"; }

std::string side_text(const SwitchSide& side) {
  PLAN_CHECK(side.strategy.has_value() != side.layout.has_value());
  if (side.layout) return "{\"layout\":" + to_json(*side.layout) + "}";
  return "{\"strategy\":" + to_json(*side.strategy) + "}";
}

std::string ddp_text(const MegatronOptions& ddp) {
  std::string text = "{\"overlap_grad_reduce\":" + bool_text(ddp.overlap_grad_reduce);
  if (ddp.ddp_bucket_size) text += ",\"ddp_bucket_size\":" + std::to_string(*ddp.ddp_bucket_size);
  if (ddp.ddp_num_buckets) text += ",\"ddp_num_buckets\":" + std::to_string(*ddp.ddp_num_buckets);
  text += ",\"ddp_pad_buckets_for_high_nccl_busbw\":" +
          bool_text(ddp.ddp_pad_buckets_for_high_nccl_busbw);
  text += ",\"accumulate_allreduce_grads_in_fp32\":" +
          bool_text(ddp.accumulate_allreduce_grads_in_fp32);
  return text + "}";
}

std::string options_text(const PlanOptions& options) {
  std::string text = "{\"megatron_version\":" + json_quote(name_of(options.model.megatron_version));
  text += ",\"transformer_impl\":" + word_of(kImpls, options.model.transformer_impl);
  if (options.model.make_vocab_size_divisible_by) {
    text += ",\"make_vocab_size_divisible_by\":" +
            std::to_string(*options.model.make_vocab_size_divisible_by);
  }
  text += ",\"mtp_num_layers\":" + std::to_string(options.model.mtp_num_layers);
  text += ",\"ddp\":" + ddp_text(options.ddp);
  text += ",\"states\":[";
  for (std::size_t i = 0; i < options.states.size(); ++i) {
    text += (i > 0 ? "," : "") + to_json(options.states[i]);
  }
  text += "],\"algorithm\":" + json_quote(name_of(options.algorithm));
  text += ",\"window_ops\":" + std::to_string(options.window_ops);
  text += ",\"packing\":" + word_of(kPackings, options.packing);
  return text + ",\"alias\":" + bool_text(options.alias) + "}";
}

SwitchSide read_side(const JsonCursor& cursor) {
  cursor.expect_object({"strategy", "layout"});
  SwitchSide side;
  const auto strategy = cursor.find("strategy");
  const auto layout = cursor.find("layout");
  if (strategy.has_value() == layout.has_value()) {
    cursor.fail("expected either \"strategy\" or \"layout\"");
  }
  if (strategy) {
    side.strategy = parse_strategy_list("[" + to_compact_json(strategy->node()) + "]",
                                        "request" + strategy->pointer())
                        .front();
  } else {
    side.layout = parse_layout_json(to_compact_json(layout->node()), "request" + layout->pointer());
  }
  return side;
}

MegatronOptions read_ddp(const JsonCursor& cursor) {
  cursor.expect_object({"overlap_grad_reduce", "ddp_bucket_size", "ddp_num_buckets",
                        "ddp_pad_buckets_for_high_nccl_busbw",
                        "accumulate_allreduce_grads_in_fp32"});
  MegatronOptions ddp;
  ddp.overlap_grad_reduce = cursor.at("overlap_grad_reduce").as_bool();
  if (const auto size = cursor.find("ddp_bucket_size")) {
    ddp.ddp_bucket_size = size->as_int64(1, INT64_MAX);
  }
  if (const auto count = cursor.find("ddp_num_buckets")) {
    ddp.ddp_num_buckets = count->as_int32(1, INT32_MAX);
  }
  ddp.ddp_pad_buckets_for_high_nccl_busbw =
      cursor.at("ddp_pad_buckets_for_high_nccl_busbw").as_bool();
  ddp.accumulate_allreduce_grads_in_fp32 =
      cursor.at("accumulate_allreduce_grads_in_fp32").as_bool();
  return ddp;
}

PlanOptions read_options(const JsonCursor& cursor) {
  cursor.expect_object({"megatron_version", "transformer_impl", "make_vocab_size_divisible_by",
                        "mtp_num_layers", "ddp", "states", "algorithm", "window_ops", "packing",
                        "alias"});
  PlanOptions options;
  const JsonCursor version = cursor.at("megatron_version");
  const auto known = megatron_version_from_name(version.as_string());
  if (!known) version.fail("expected 0.11, 0.13 or 0.20, found " + describe(version.node()));
  options.model.megatron_version = *known;
  options.model.transformer_impl = read_word(cursor.at("transformer_impl"), kImpls);
  if (const auto divisor = cursor.find("make_vocab_size_divisible_by")) {
    options.model.make_vocab_size_divisible_by = divisor->as_int64(1, INT32_MAX);
  }
  options.model.mtp_num_layers = cursor.at("mtp_num_layers").as_int32(0, INT32_MAX);
  options.ddp = read_ddp(cursor.at("ddp"));
  for (const JsonCursor& state : cursor.at("states").elements()) {
    options.states.push_back(read_state_kind(state));
  }
  const JsonCursor algorithm = cursor.at("algorithm");
  try {
    options.algorithm = algorithm_from_name(algorithm.as_string());
  } catch (const Error& error) {
    algorithm.fail(error.message());
  }
  options.window_ops = cursor.at("window_ops").as_int32(2, INT32_MAX);
  options.packing = read_word(cursor.at("packing"), kPackings);
  options.alias = cursor.at("alias").as_bool();
  return options;
}

}  // namespace

std::string to_json(const Request& request) {
  std::string text =
      "{\"format\":" + json_quote(kFormat) + ",\"version\":" + std::to_string(kVersion);
  text += ",\"model\":" + request.model;
  text += ",\"source\":" + side_text(request.source);
  text += ",\"target\":" + side_text(request.target);
  text += ",\"topology\":" + to_json(request.topology);
  text += ",\"options\":" + options_text(request.options) + "}";
  return to_compact_json(parse_json(text, "request").root);
}

Request parse_request_json(std::string_view json, const std::string& source_name) {
  const JsonDocument document = parse_json(json, source_name);
  const JsonCursor root = JsonCursor::root(document);
  root.expect_object({"format", "version", "model", "source", "target", "topology", "options"});
  if (root.at("format").as_string() != kFormat) {
    root.at("format").fail("expected " + json_quote(kFormat) + ", found " +
                           describe(root.at("format").node()));
  }
  root.at("version").as_int32(kVersion, kVersion);
  Request request;
  request.model = to_compact_json(root.at("model").node());
  request.source = read_side(root.at("source"));
  request.target = read_side(root.at("target"));
  request.topology =
      parse_topology_json(to_compact_json(root.at("topology").node()), "request/topology");
  request.options = read_options(root.at("options"));
  return request;
}

}  // namespace plan
