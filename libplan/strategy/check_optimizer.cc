// S6xx: distributed optimizer and its instances, sequence and context parallelism.
#include "libplan/base/error.h"
#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/optimizer_partners.h"
#include "libplan/strategy/rank_grid.h"

namespace plan::check {
namespace {

std::string set_text(const std::vector<std::int32_t>& ranks) {
  std::string text = "{";
  for (const std::int32_t rank : ranks) text += (text.size() == 1 ? "" : ",") + num(rank);
  return text + "}";
}

// S606.
void check_partners(EntryChecker& c) {
  if (!c.in_force(kSince013)) return;
  if (c.s.order == "tp-cp-ep-dp-pp" || c.s.order == "tp-cp-ep-pp-dp") return;
  const std::optional<PartnerMismatch> mismatch =
      find_partner_mismatch(RankGrid::make(c.s, c.version()));
  if (!mismatch) return;
  c.warning("S606", kSince013, c.kInstances,
            "instances pair ranks " + set_text(mismatch->dense) + " for dense state, " +
                set_text(mismatch->expert) + " for experts, expected the same",
            "choose an order with ep before dp");
}

// S601-S604, S606.
void check_instances(EntryChecker& c) {
  if (!c.usable({c.kInstances})) return;
  const std::int64_t k = c.instances();
  if (c.usable({c.kDistributed}) && k > 1 && !c.s.use_distributed_optimizer) {
    c.error("S603", kAll, c.kInstances,
            num(k) +
                " optimizer instances need the distributed optimizer, found "
                "use_distributed_optimizer false",
            "set it to true, or the instances to 1");
  }
  if (!c.entry.dense_ok) return;
  const std::int64_t shards = c.dp() * c.cp();
  if (shards % k != 0) {
    return c.error("S601", kAll, c.kInstances,
                   num(k) + " instances must divide dp·cp = " + num(shards),
                   "choose one of " + small_divisors(shards));
  }
  if (k > 1 && k == shards) {
    c.note("S604", kAll, c.kInstances,
           "as many instances as dp·cp = " + num(shards) +
               ": every rank holds the whole optimizer state of its layers");
  }
  if (!c.entry.expert_ok) return;
  if (c.edp() % k != 0) {
    return c.error("S602", kSince013, c.kInstances,
                   num(k) + " instances must divide expert DP = " + num(c.edp()),
                   "choose one of " + small_divisors(c.edp()));
  }
  if (k > 1 && c.entry.rank_rules_ok) check_partners(c);
}

// S651, S652.
void check_sequence(EntryChecker& c) {
  if (!c.usable({c.kTp, c.kSequence})) return;
  if (c.s.sequence_parallel == true && c.tp() == 1) {
    c.warning("S651", kAll, c.kSequence,
              "sequence_parallel needs tensor_model_parallel_size > 1, found 1", "drop the key");
  }
  if (!c.options.seq_length || !c.usable({c.kCp})) return;
  const std::int64_t length = *c.options.seq_length;
  if (c.cp() > 1 && length % (2 * c.cp()) != 0) {
    c.error("S652", kAll, c.kCp,
            "2·cp = " + num(2 * c.cp()) + " must divide the sequence length, found " + num(length),
            "choose another cp or sequence length");
  } else if (c.sequence_parallel() && length / c.cp() % c.tp() != 0) {
    c.error("S652", kAll, c.kCp,
            "tp " + num(c.tp()) + " must divide " + num(length / c.cp()) +
                " tokens of a context-parallel rank with sequence_parallel",
            "choose another tp, cp or sequence length");
  }
}

}  // namespace

void check_optimizer(EntryChecker& c) {
  if (c.entry.rank_error) return;
  check_instances(c);
  if (c.entry.dense_ok && c.usable({c.kDistributed}) && !c.s.use_distributed_optimizer &&
      c.dp() * c.cp() > 1) {
    c.note("S605", kAll, c.kDistributed,
           "12 bytes of optimizer state per parameter on each of dp·cp = " + num(c.dp() * c.cp()) +
               " ranks",
           "set it to true");
  }
  check_sequence(c);
  if (c.usable({c.kCp}) && c.cp() > 1 && c.facts.num_mtp_layers > 0) {
    c.warning("S653", k013, c.kCp,
              "the training script refuses MTP with context parallelism, expected 1, found " +
                  num(c.cp()),
              "set cp to 1");
  }
}

}  // namespace plan::check
