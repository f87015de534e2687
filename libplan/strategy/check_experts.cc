// S5xx: mixture of experts.
#include "libplan/strategy/check_entry.h"

namespace plan::check {
namespace {

void check_dense_model(EntryChecker& c) {
  if (c.usable({c.kEp}) && c.ep() > 1) {
    c.error("S501", kAll, c.kEp,
            "the model has no experts, expected 1, found expert parallel " + num(c.ep()),
            "set it to 1");
  }
  if (c.gives(c.kEtp) && c.usable({c.kTp}) && c.etp() != c.tp()) {
    c.note(
        "S509", kAll, c.kEtp,
        "the model has no experts: " + num(c.etp()) + " shapes the expert grid and splits nothing",
        "drop the key");
  }
}

// S503, S506, S507: how experts are cut.
void check_expert_tensor(EntryChecker& c) {
  if (!c.etp_usable()) return;
  const ModelFacts& m = c.facts;
  const char* key = c.gives(c.kEtp) ? c.kEtp : c.kTp;
  if (m.expert_ffn % c.etp() != 0) {
    c.error("S503", kAll, key,
            "etp " + num(c.etp()) + " must divide expert FFN " + num(m.expert_ffn),
            "choose one of " + small_divisors(m.expert_ffn));
  }
  if (c.usable({c.kEp, c.kTp}) && c.ep() == 1 && c.etp() != c.tp()) {
    c.error("S506", kOlder, c.kEtp,
            "with ep = 1, etp " + num(c.etp()) + " must equal tp " + num(c.tp()) +
                ": experts land in the dense buffers and are reduced over the wrong ranks",
            "set etp to " + num(c.tp()) + ", or ep above 1");
  }
  if (m.expert_bias && c.etp() != 1) {
    c.error("S507", kNewest, c.kEtp,
            "experts with a linear bias need expert_tensor_parallel_size 1, found " + num(c.etp()),
            "set it to 1");
  }
}

}  // namespace

void check_experts(EntryChecker& c) {
  const ModelFacts& m = c.facts;
  if (m.experts < 1) return check_dense_model(c);
  if (c.usable({c.kEp}) && m.experts % c.ep() != 0) {
    c.error("S502", kAll, c.kEp,
            "ep " + num(c.ep()) + " must divide " + num(m.experts) + " experts",
            "choose one of " + small_divisors(m.experts));
  }
  check_expert_tensor(c);
  if (!m.grouped_experts && m.expert_ffn != m.ffn) {
    c.note(
        "S504", k011, "",
        "sequential experts need an expert FFN of " + num(m.ffn) + ", found " + num(m.expert_ffn),
        "use grouped experts");
  }
  if (c.usable({c.kTp}) && c.gives(c.kSequence) && c.tp() > 1 && c.s.sequence_parallel == false) {
    c.error("S505", kAll, c.kSequence,
            "MoE with tp " + num(c.tp()) +
                " trains only with sequence_parallel, expected true, found false",
            "set it to true, or drop the key");
  }
  if (c.usable({c.kEp}) && c.ep() > 1 && m.float16) {
    c.error("S508", kOlder, c.kEp, "ep " + num(c.ep()) + " needs a bfloat16 model, found float16",
            "use bfloat16");
  }
}

}  // namespace plan::check
