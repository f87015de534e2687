// reshard-plan: registers the verbs, runs one, and turns errors into exit codes.
#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>

#include "libplan/base/error.h"
#include "tools/verbs.h"

namespace plan::tools {
namespace {

constexpr int kAnswerIsNo = 1;
constexpr int kUnreadable = 2;
constexpr int kRunTime = 3;

constexpr const char* kFooter = R"(Examples:
  reshard-plan plan --model llama-2-7b --strategies list.json --from dp8 --to tp2-pp4 -o p.json
  reshard-plan verify p.json
  reshard-plan run p.json --executor host --check
  reshard-plan cost --model llama-2-7b --strategies list.json --from 0 --to 1 \
      --topology nodes=2,gpus=4,nvlink=400GB/s,nic=25GB/s --json
  reshard-plan layout --model tiny-llama --strategies list.json --at tp2-dp4 --rank 3

Exit codes: 0 fine; 1 read, but the answer is no; 2 wrong option or unreadable input; 3 failure at run time.)";

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::Usage:
    case ErrorCode::Unreadable: return kUnreadable;
    case ErrorCode::BadInput:
    case ErrorCode::Unsupported:
    case ErrorCode::Infeasible: return kAnswerIsNo;
    case ErrorCode::Executor:
    case ErrorCode::Io: return kRunTime;
  }
  return kRunTime;
}

void add_model_flags(CLI::App& verb, InputArgs& args) {
  verb.add_option("--model", args.model,
                  "Hugging Face config.json, Megatron arguments, a model file, or a built-in name");
  verb.add_option("--strategies", args.strategies, "strategy list (JSON, Megatron key names)");
  verb.add_option("--states", args.states,
                  "kinds of state that move: main_param,exp_avg,exp_avg_sq[,param]")
      ->delimiter(',');
  verb.add_option("--megatron-version", args.megatron_version,
                  "0.11, 0.13 or newest (0.20), the default");
  verb.add_option("--transformer-impl", args.transformer_impl, "transformer_engine or local")
      ->capture_default_str();
  verb.add_option("--make-vocab-size-divisible-by", args.make_vocab_size_divisible_by,
                  "pad the vocabulary to a multiple of this times TP (128)")
      ->check(CLI::PositiveNumber);
  verb.add_option("--mtp-num-layers", args.mtp_num_layers, "multi-token prediction layers (0)")
      ->check(CLI::NonNegativeNumber);
  verb.add_option("--overlap-grad-reduce,--overlap_grad_reduce", args.overlap_grad_reduce,
                  "true or false (false)");
  verb.add_option("--ddp-bucket-size,--ddp_bucket_size", args.ddp_bucket_size,
                  "elements of a bucket")
      ->check(CLI::PositiveNumber);
  verb.add_option("--ddp-num-buckets,--ddp_num_buckets", args.ddp_num_buckets, "buckets of a rank")
      ->check(CLI::PositiveNumber);
  verb.add_option("--ddp-pad-buckets-for-high-nccl-busbw,--ddp_pad_buckets_for_high_nccl_busbw",
                  args.ddp_pad_buckets_for_high_nccl_busbw, "true or false (false)");
  verb.add_option("--accumulate-allreduce-grads-in-fp32,--accumulate_allreduce_grads_in_fp32",
                  args.accumulate_allreduce_grads_in_fp32, "true or false (true)");
}

void add_switch_flags(CLI::App& verb, InputArgs& args) {
  add_model_flags(verb, args);
  verb.add_option("--from", args.from, "source strategy: index or name in the list");
  verb.add_option("--to", args.to, "target strategy: index or name in the list");
  verb.add_option("--source-layout", args.source_layout,
                  "the source as a layout file, in place of --from");
  verb.add_option("--target-layout", args.target_layout,
                  "the target as a layout file, in place of --to");
  verb.add_option(
      "--topology", args.topology,
      "topology file, or nodes=16,gpus=8,nvlink=400GB/s,nic=25GB/s (default: one node)");
  verb.add_option("--dead-ranks", args.dead_ranks, "devices that can neither send nor receive")
      ->delimiter(',');
  verb.add_option("--memory-limit", args.memory_limit, "most bytes of one rank, e.g. 80GiB");
  verb.add_option("--resident-bytes", args.resident_bytes,
                  "bytes of each rank that the plan does not know");
  verb.add_option("--algorithm", args.algorithm, "balanced or direct")->capture_default_str();
  verb.add_option("--window-ops", args.window_ops, "most sends plus receives of a rank in a window")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  verb.add_option("--pack", args.pack, "auto, always or never: messages through contiguous scratch")
      ->capture_default_str();
}

// Runs after parsing; the chosen verb's call.
using Call = std::function<int()>;

template <class Args>
Args& add_verb(CLI::App& app, const char* name, const char* what, int (*run)(const Args&),
               Call& call, CLI::App*& verb) {
  auto args = std::make_shared<Args>();
  verb = app.add_subcommand(name, what);
  verb->callback([args, run, &call] { call = [args, run] { return run(*args); }; });
  return *args;
}

void add_verbs(CLI::App& app, Call& call) {
  CLI::App* verb = nullptr;
  PlanArgs& plan = add_verb(app, "plan", "write a Schedule", run_plan_verb, call, verb);
  add_switch_flags(*verb, plan.inputs);
  verb->add_option("--executor", plan.inputs.executor, "host, mpi or nccl: decides --pack auto")
      ->capture_default_str();
  verb->add_option("-o,--output", plan.output, "plan.json or plan.fb; - is standard output")
      ->capture_default_str();
  verb->add_option("--rank", plan.rank, "one worker's part alone");

  VerifyArgs& verify = add_verb(app, "verify", "prove a Schedule right, or list every finding",
                                run_verify_verb, call, verb);
  verb->add_option("plan", verify.plan, "plan file")->required();
  add_switch_flags(*verb, verify.inputs);
  verb->add_flag("--json", verify.json, "findings as JSON");

  CostArgs& cost =
      add_verb(app, "cost", "bytes, time and memory beside the bounds", run_cost_verb, call, verb);
  verb->add_option("plan", cost.plan, "plan file; or give the flags of a switch");
  add_switch_flags(*verb, cost.inputs);
  verb->add_flag("--json", cost.json, "as JSON");

  LayoutArgs& layout =
      add_verb(app, "layout", "print the shard map of a strategy", run_layout_verb, call, verb);
  add_model_flags(*verb, layout.inputs);
  verb->add_option("--at", layout.at, "strategy: index or name in the list");
  verb->add_option("--rank", layout.rank, "one rank alone");
  verb->add_option("-o,--output", layout.output, "file; - is standard output")
      ->capture_default_str();
  verb->add_flag("--json", layout.json, "as JSON, which --source-layout and --target-layout read");

  CheckArgs& check =
      add_verb(app, "check", "validate a strategy list: every entry and every switch",
               run_check_verb, call, verb);
  verb->add_option("list", check.strategies, "strategy list");
  add_switch_flags(*verb, check.inputs);
  verb->add_option("--at", check.at, "a strategy of the list that must exist");
  verb->add_option("--format", check.format, "text, json, sarif, junit or github")
      ->capture_default_str();
  verb->add_flag("--strict", check.strict, "warnings are errors");
  verb->add_option("--seq-length", check.seq_length, "tokens of a sequence")
      ->check(CLI::PositiveNumber);
  verb->add_option("--global-batch-size", check.global_batch_size, "samples of a training step")
      ->check(CLI::PositiveNumber);
  verb->add_option("--micro-batch-size", check.micro_batch_size, "samples of a micro batch")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--compat", check.compat,
                   "elastic-megatron: note what that system would refuse");

  ShowArgs& show = add_verb(app, "show", "print a Schedule", run_show_verb, call, verb);
  verb->add_option("plan", show.plan, "plan file")->required();
  verb->add_option("--rank", show.rank, "one rank alone");
  verb->add_flag("--ops", show.ops, "every op, in the text form");
  verb->add_option("--max-lines", show.max_lines, "most lines of ops; 0: all")
      ->capture_default_str();

  RunArgs& run =
      add_verb(app, "run", "replay a Schedule on generated data", run_run_verb, call, verb);
  verb->add_option("plan", run.plan, "plan file")->required();
  verb->add_option("--executor", run.executor, "host")->capture_default_str();
  verb->add_flag("--check", run.check, "compare every element, under three seeds");
  verb->add_flag("--json", run.json, "report as JSON");
  verb->add_option("--timeout", run.timeout_seconds, "seconds without progress before giving up")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);

  ConvertArgs& convert =
      add_verb(app, "convert", "JSON <-> FlatBuffers, lossless", run_convert_verb, call, verb);
  verb->add_option("from", convert.from, "plan file")->required();
  verb->add_option("to", convert.to, "plan file; the suffix .json or .fb decides the form")
      ->required();
}

int run(int argc, char** argv) {
  CLI::App app(
      "Compiles parallelism switches of large-model training state into checked schedules.",
      "reshard-plan");
  app.footer(kFooter);
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(LIBPLAN_VERSION));
  Call call;
  add_verbs(app, call);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUnreadable;
  }
  const int code = call();
  std::cout.flush();
  if (!std::cout) throw Error(ErrorCode::Io, "cannot write to standard output");
  return code;
}

}  // namespace
}  // namespace plan::tools

int main(int argc, char** argv) {
  try {
    return plan::tools::run(argc, argv);
  } catch (const plan::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return plan::tools::exit_code(error.code());
  } catch (const std::bad_alloc&) {
    std::cerr << "error: out of memory\n";
    return plan::tools::kRunTime;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return plan::tools::kRunTime;
  }
}
