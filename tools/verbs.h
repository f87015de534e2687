// The verbs of reshard-plan, one file each, and what the command line gives them.
//
// main.cc fills the arguments; a verb returns its exit code (0 fine, 1 the answer is no) and throws
// plan::Error for everything else. The artifact goes to stdout or to `output`, messages to stderr.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plan::tools {

// Flags that describe a switch; every verb that plans takes them.
struct InputArgs {
  std::string model;
  std::string strategies;
  std::string from;
  std::string to;
  std::string source_layout;
  std::string target_layout;
  std::string topology;
  std::vector<std::int32_t> dead_ranks;
  std::vector<std::string> states;
  std::string algorithm = "balanced";
  std::string memory_limit;
  std::string resident_bytes;
  std::int32_t window_ops = 256;
  std::string pack = "auto";
  std::string executor = "host";
  std::string megatron_version;  // empty: newest
  std::string transformer_impl = "transformer_engine";
  std::optional<std::int64_t> make_vocab_size_divisible_by;
  std::int32_t mtp_num_layers = 0;
  bool overlap_grad_reduce = false;
  std::optional<std::int64_t> ddp_bucket_size;
  std::optional<std::int32_t> ddp_num_buckets;
  bool ddp_pad_buckets_for_high_nccl_busbw = false;
  bool accumulate_allreduce_grads_in_fp32 = true;
};

struct PlanArgs {
  InputArgs inputs;
  std::string output = "-";
  std::optional<std::int32_t> rank;
};
int run_plan_verb(const PlanArgs& args);

struct VerifyArgs {
  std::string plan;
  InputArgs inputs;  // compared by digest where given
  bool json = false;
};
int run_verify_verb(const VerifyArgs& args);

struct CostArgs {
  std::string plan;  // empty: plan from the inputs
  InputArgs inputs;
  bool json = false;
};
int run_cost_verb(const CostArgs& args);

struct LayoutArgs {
  InputArgs inputs;
  std::string at;
  std::optional<std::int32_t> rank;
  std::string output = "-";
  bool json = false;
};
int run_layout_verb(const LayoutArgs& args);

struct ShowArgs {
  std::string plan;
  std::optional<std::int32_t> rank;
  std::int64_t max_lines = 0;
  bool ops = false;
};
int run_show_verb(const ShowArgs& args);

struct CheckArgs {
  std::string strategies;
  InputArgs inputs;
  std::string at;
  std::string format = "text";
  bool strict = false;
  std::optional<std::int64_t> seq_length;
  std::optional<std::int64_t> global_batch_size;
  std::int64_t micro_batch_size = 1;
  std::string compat;
};
int run_check_verb(const CheckArgs& args);

struct RunArgs {
  std::string plan;
  std::string executor = "host";
  bool check = false;
  bool json = false;
  double timeout_seconds = 60;
};
int run_run_verb(const RunArgs& args);

struct ConvertArgs {
  std::string from;
  std::string to;
};
int run_convert_verb(const ConvertArgs& args);

}  // namespace plan::tools
