// S901-S904, S906, S907: what ElasticMegatron would refuse of one entry. S905 and S908, between
// entries, are in check_switches.cc.
#include "libplan/strategy/check_entry.h"

namespace plan::check {

void check_compat(EntryChecker& c) {
  const Strategy& s = c.s;
  if (c.usable({c.kTp}) && (c.tp() & (c.tp() - 1)) != 0) {
    c.note("S901", kAll, c.kTp, "ElasticMegatron wants a power of two, found " + num(c.tp()));
  }
  for (const char* key : {c.kVirtual, c.kFirst, c.kLast, c.kEmbedding, c.kLoss, c.kLayout}) {
    const bool off = (key == c.kEmbedding && !s.account_for_embedding_in_pipeline_split) ||
                     (key == c.kLoss && !s.account_for_loss_in_pipeline_split) ||
                     (key == c.kVirtual && !s.virtual_pipeline_model_parallel_size);
    if (!c.gives(key) || off) continue;
    c.note("S902", kAll, key, "ElasticMegatron knows no " + std::string(key));
  }
  if (c.usable({c.kPp}) && c.facts.num_layers % c.pp() != 0) {
    c.note("S902", kAll, c.kPp,
           "ElasticMegatron wants pp to divide " + num(c.facts.num_layers) + " layers, found " +
               num(c.pp()));
  }
  if (c.facts.experts > 0 && c.etp_usable() && c.etp() != 1) {
    c.note("S903", kAll, c.gives(c.kEtp) ? c.kEtp : c.kTp,
           "ElasticMegatron wants expert_tensor_parallel_size 1 on a MoE model, found " +
               num(c.etp()));
  }
  if (c.entry.rank_rules_ok && c.usable({c.kInstances}) && c.instances() > 1 &&
      (c.cp() == 1 || c.dp() % c.instances() != 0)) {
    c.note("S904", kAll, c.kInstances,
           "ElasticMegatron wants cp > 1 and instances that divide dp = " + num(c.dp()) +
               ", found cp " + num(c.cp()) + " and " + num(c.instances()) + " instances");
  }
  if (c.usable({c.kDistributed}) && !s.use_distributed_optimizer) {
    c.note("S906", kAll, c.kDistributed, "ElasticMegatron wants true, found false");
  }
  if (c.usable({c.kTp, c.kSequence}) && s.sequence_parallel == true && c.tp() == 1) {
    c.note("S907", kAll, c.kSequence,
           "ElasticMegatron wants tensor_model_parallel_size > 1 with it, found 1");
  }
}

}  // namespace plan::check
