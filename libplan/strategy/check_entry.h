// Shared by the rule families (check_*.cc): one entry, what can be read of it, and where findings
// go.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "libplan/strategy/check.h"
#include "libplan/strategy/entry_reader.h"
#include "libplan/strategy/stage_memory.h"

namespace plan::check {

// For which versions a rule holds.
enum Versions : unsigned {
  k011 = 1u << 0,
  k013 = 1u << 1,
  kNewest = 1u << 2,
  kOlder = k011 | k013,
  kSince013 = k013 | kNewest,
  kAll = k011 | k013 | kNewest,
};

// An entry of the list and its findings so far.
struct Entry {
  std::int32_t index = 0;
  std::string name;
  EntryReading reading;
  bool checkable = true;       // an object without a duplicate key
  bool dense_ok = false;       // S201 holds: there is a data-parallel size
  bool expert_ok = false;      // S202 holds: there is an expert data-parallel size
  bool rank_rules_ok = false;  // both, and the order makes a grid of them
  bool rank_error = false;     // S201-S206 or S208 spoke
  bool pipeline_ok = false;    // no S3xx error
  bool has_error = false;
};

class EntryChecker {
 public:
  EntryChecker(Entry& of, const ModelFacts& model, const Options& opts,
               std::vector<Diagnostic>& findings)
      : entry(of), s(of.reading.strategy), facts(model), options(opts), findings_(findings) {}

  // The version whose rules hold at full severity.
  MegatronVersion version() const { return options.version.value_or(MegatronVersion::V020); }
  // Whether a rule with these versions is in force or is at least worth a note.
  bool in_force(Versions versions) const;
  // Every key is absent with a default, or well given.
  bool usable(std::initializer_list<const char*> keys) const;
  bool gives(const char* key) const { return entry.reading.gives(key); }

  // `key` empty: the entry itself. Without a version asked for, a rule that only older versions
  // have becomes a note that names them.
  void report(const char* rule, Severity severity, Versions versions, const std::string& key,
              std::string message, std::string fix = {});
  void error(const char* rule, Versions versions, const std::string& key, std::string message,
             std::string fix = {}) {
    report(rule, Severity::Error, versions, key, std::move(message), std::move(fix));
  }
  void warning(const char* rule, Versions versions, const std::string& key, std::string message,
               std::string fix = {}) {
    report(rule, Severity::Warning, versions, key, std::move(message), std::move(fix));
  }
  void note(const char* rule, Versions versions, const std::string& key, std::string message,
            std::string fix = {}) {
    report(rule, Severity::Note, versions, key, std::move(message), std::move(fix));
  }

  // Sizes in 64 bits, so that their products need no care.
  std::int64_t world() const { return s.world_size; }
  std::int64_t tp() const { return s.tensor_model_parallel_size; }
  std::int64_t pp() const { return s.pipeline_model_parallel_size; }
  std::int64_t cp() const { return s.context_parallel_size; }
  std::int64_t ep() const { return s.expert_model_parallel_size; }
  std::int64_t etp() const { return s.etp(); }
  std::int64_t instances() const { return s.num_distributed_optimizer_instances; }
  // Only when dense_ok, or expert_ok.
  std::int64_t dp() const { return world() / (tp() * pp() * cp()); }
  std::int64_t edp() const { return world() / (etp() * ep() * pp()); }
  // What expert_tensor_parallel_size stands for is readable.
  bool etp_usable() const {
    return usable({"expert_tensor_parallel_size"}) &&
           (s.expert_tensor_parallel_size || usable({kTp}));
  }
  bool sequence_parallel() const { return s.sequence_parallel.value_or(tp() > 1); }

  static constexpr const char* kWorld = "world_size";
  static constexpr const char* kTp = "tensor_model_parallel_size";
  static constexpr const char* kPp = "pipeline_model_parallel_size";
  static constexpr const char* kCp = "context_parallel_size";
  static constexpr const char* kEp = "expert_model_parallel_size";
  static constexpr const char* kEtp = "expert_tensor_parallel_size";
  static constexpr const char* kInstances = "num_distributed_optimizer_instances";
  static constexpr const char* kVirtual = "virtual_pipeline_model_parallel_size";
  static constexpr const char* kFirst = "num_layers_in_first_pipeline_stage";
  static constexpr const char* kLast = "num_layers_in_last_pipeline_stage";
  static constexpr const char* kEmbedding = "account_for_embedding_in_pipeline_split";
  static constexpr const char* kLoss = "account_for_loss_in_pipeline_split";
  static constexpr const char* kLayout = "pipeline_model_parallel_layout";
  static constexpr const char* kSequence = "sequence_parallel";
  static constexpr const char* kDistributed = "use_distributed_optimizer";
  static constexpr const char* kOrder = "order";

  Entry& entry;
  const Strategy& s;
  const ModelFacts& facts;
  const Options& options;

 private:
  std::vector<Diagnostic>& findings_;
};

// The rule families. check_grid comes first: it sets rank_rules_ok, which S6xx to S8xx need;
// check_pipeline sets pipeline_ok.
void check_grid(EntryChecker& c);
void check_pipeline(EntryChecker& c);
void check_attention(EntryChecker& c);
void check_experts(EntryChecker& c);
void check_optimizer(EntryChecker& c);
void check_memory(EntryChecker& c);
void check_compat(EntryChecker& c);
// S410, which looks at the model alone.
void check_model(const ModelFacts& facts, std::vector<Diagnostic>& findings);

void check_entry_topology(EntryChecker& c);  // S120, S121

// S110: `entries` is the list in order.
void check_same_entries(std::vector<Entry>& entries, const ModelFacts& facts,
                        const Options& options, std::vector<Diagnostic>& findings);
// S7xx, S803, S905, S908: between entries.
void check_switches(std::vector<Entry>& entries, const ModelFacts& facts, const Options& options,
                    std::vector<Diagnostic>& findings);

// The entry's strategy with every default filled in and every spelling made one, as text: equal
// texts mean equal strategies (S110).
std::string resolved_text(const Strategy& strategy, MegatronVersion version);

// Layout options in effect for one strategy: its own, else the command line's.
BufferOptions buffer_options(const Strategy& strategy, const Options& options);

// Plain words for messages.
std::string num(std::int64_t number);
std::string quoted(const std::string& name);
std::string entry_title(const Entry& entry);  // "dp8", or "entry 3"
// Up to four divisors of `number` that are at most 64, ascending: "1, 2, 4, 8".
std::string small_divisors(std::int64_t number);
// Product that stops growing at the largest int64.
std::int64_t saturating_product(std::initializer_list<std::int64_t> factors);

}  // namespace plan::check
