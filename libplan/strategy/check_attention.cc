// S4xx: attention heads, FFN, vocabulary.
#include "libplan/base/checked.h"
#include "libplan/strategy/check_entry.h"

namespace plan::check {
namespace {

std::string divisors_fix(std::int64_t number) { return "choose one of " + small_divisors(number); }

// S401, S402, S403, S404, S408.
void check_heads(EntryChecker& c) {
  const ModelFacts& m = c.facts;
  if (m.heads < 1) return;
  const std::int64_t tp = c.tp();
  const bool grouped = !m.mla && m.kv_groups > 0 && m.kv_groups < m.heads;
  bool spoken = false;
  if (m.heads % tp != 0) {
    spoken = true;
    c.error("S401", kAll, c.kTp,
            "tp " + num(tp) + " must divide " + num(m.heads) + " attention heads",
            divisors_fix(m.heads));
  }
  if (grouped && m.kv_groups % tp != 0 && tp % m.kv_groups != 0) {
    spoken = true;
    c.error("S402", kAll, c.kTp,
            "tp " + num(tp) + " and " + num(m.kv_groups) + " KV groups: one must divide the other",
            divisors_fix(m.kv_groups));
  }
  if (spoken) return;
  if (grouped && m.kv_groups % tp != 0) {
    c.error("S403", kOlder, c.kTp,
            "tp must divide " + num(m.kv_groups) + " KV groups, found " + num(tp),
            divisors_fix(m.kv_groups));
  }
  const std::int64_t rows = (m.heads + 2 * m.kv_groups) * m.head_size;
  if (grouped && m.kv_groups < tp && rows % tp != 0) {
    c.error("S404", kNewest, c.kTp, num(rows) + " QKV rows do not divide by tp " + num(tp),
            "choose a tp that divides both " + num(m.heads) + " heads and " + num(rows) + " rows");
  }
  const bool q_fails = m.q_lora % tp != 0;
  if (m.mla && (q_fails || m.kv_lora_and_rope % tp != 0)) {
    c.error("S408", m.mla_local_down ? kAll : kOlder, c.kTp,
            "tp " + num(tp) + " must divide " +
                (q_fails ? "q_lora_rank = " + num(m.q_lora)
                         : "kv_lora_rank + rope = " + num(m.kv_lora_and_rope)),
            divisors_fix(q_fails ? m.q_lora : m.kv_lora_and_rope));
  }
}

// S405, S406, S407.
void check_widths(EntryChecker& c) {
  const ModelFacts& m = c.facts;
  const std::int64_t tp = c.tp();
  if (m.has_dense_layer && m.ffn > 0 && m.ffn % tp != 0) {
    c.error("S405", kAll, c.kTp, "tp " + num(tp) + " must divide FFN size " + num(m.ffn),
            divisors_fix(m.ffn));
  }
  if (m.shared_ffn % tp != 0) {
    c.error("S406", kAll, c.kTp,
            "tp " + num(tp) + " must divide shared-expert FFN size " + num(m.shared_ffn),
            divisors_fix(m.shared_ffn));
  }
  if (m.vocab < 1) return;
  const std::int64_t padded = ceil_to(m.vocab, m.vocab_divisor * tp);
  if ((padded - m.vocab) * 100 > m.vocab) {
    c.note("S407", kAll, c.kTp,
           "vocab " + num(m.vocab) + " is padded to " + num(padded) + ", by more than 1 %");
  }
}

// S409.
void check_delta_net(EntryChecker& c) {
  const ModelFacts& m = c.facts;
  if (m.gdn_key_heads < 1 || !c.usable({c.kCp})) return;
  const std::int64_t ways = saturating_product({c.tp(), c.cp()});
  if (m.gdn_key_heads % ways == 0 && m.gdn_value_heads % ways == 0) return;
  c.error("S409", kNewest, c.kTp,
          "tp·cp = " + num(ways) + " must divide " + num(m.gdn_key_heads) + " key heads and " +
              num(m.gdn_value_heads) + " value heads",
          "shrink tp or cp");
}

}  // namespace

void check_attention(EntryChecker& c) {
  if (!c.usable({c.kTp})) return;
  check_heads(c);
  check_widths(c);
  check_delta_net(c);
}

void check_model(const ModelFacts& m, std::vector<Diagnostic>& findings) {
  Diagnostic found;
  found.rule = "S410";
  if (m.heads < 1 || m.mla) return;
  if (m.kv_groups > 0 && m.heads % m.kv_groups != 0) {
    found.message = num(m.kv_groups) + " KV groups must divide " + num(m.heads) +
                    " attention heads of the model";
    found.fix = "correct the model file";
    findings.push_back(found);
  }
  if (!m.head_size_given && m.hidden % m.heads != 0) {
    found.message = num(m.heads) + " attention heads must divide hidden size " + num(m.hidden) +
                    " of the model, since it gives no head size";
    found.fix = "correct the model file";
    findings.push_back(found);
  }
}

}  // namespace plan::check
