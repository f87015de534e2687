// S3xx: how layers spread over pipeline stages.
#include <algorithm>
#include <optional>

#include "libplan/base/error.h"
#include "libplan/strategy/check_entry.h"
#include "libplan/strategy/pipeline_layout.h"
#include "libplan/strategy/pipeline_split.h"

namespace plan::check {
namespace {

// The pipeline keys of one entry in the letters of the rules.
class PipelineChecker {
 public:
  explicit PipelineChecker(EntryChecker& c)
      : c_(c),
        s_(c.s),
        layers_(c.facts.num_layers),
        stages_(c.pp()),
        first_(s_.num_layers_in_first_pipeline_stage),
        last_(s_.num_layers_in_last_pipeline_stage),
        middle_(stages_ - (first_ ? 1 : 0) - (last_ ? 1 : 0)),
        rest_(layers_ - first_.value_or(0) - last_.value_or(0)),
        counted_(s_.account_for_embedding_in_pipeline_split +
                 s_.account_for_loss_in_pipeline_split) {
    layout_given_ = c.entry.reading.given.contains(EntryChecker::kLayout) && !layout_has("S114");
  }

  void run() {
    if (c_.usable({c_.kPp}) && layers_ > 0) {
      check_uneven();
      check_even();
    }
    check_layout();
    check_virtual();
  }

 private:
  bool layout_has(const std::string& rule) const {
    const auto& faults = c_.entry.reading.faults;
    return std::any_of(faults.begin(), faults.end(), [&](const KeyFault& fault) {
      return fault.key == EntryChecker::kLayout && fault.rule == rule;
    });
  }

  std::int64_t virtual_size() const { return s_.vpp(); }
  const char* uneven_key() const { return first_ ? c_.kFirst : c_.kLast; }
  std::string stage_text() const {
    return (first_ ? "first " + num(*first_) : "") + (first_ && last_ ? " + " : "") +
           (last_ ? "last " + num(*last_) : "");
  }

  // S304, S306, S305, S308 in a chain; S307, S309, S310.
  void check_uneven() {
    if (!c_.usable({c_.kFirst, c_.kLast}) || (!first_ && !last_)) return;
    check_uneven_chain();
    if (middle_ > 0 && rest_ == 0) {
      c_.error("S307", kNewest, uneven_key(),
               "no layer is left for " + num(middle_) + " middle stages, expected one or more",
               "shrink the first or the last stage");
    }
    if (c_.usable({c_.kVirtual}) && virtual_size() > 1 && stages_ > 1 && last_ && !first_ &&
        rest_ > 0) {
      c_.error("S309", kOlder, c_.kLast,
               "only the last stage is given with virtual stages: stages 0 and 1 get the same "
               "layers",
               rest_ % middle_ == 0
                   ? "set num_layers_in_first_pipeline_stage too, to " + num(rest_ / middle_)
                   : "set num_layers_in_first_pipeline_stage too");
    }
    if (middle_ == 0) {
      c_.error("S310", k011, uneven_key(),
               "division by zero: no stage is left between first and last, expected one or more",
               "drop both keys if equal stages serve, or use 0.13");
    }
  }

  void check_uneven_chain() {
    if (!c_.usable({c_.kEmbedding, c_.kLoss})) return;
    if (counted_ > 0) {
      const char* key = s_.account_for_embedding_in_pipeline_split ? c_.kEmbedding : c_.kLoss;
      return c_.error(
          "S304", kAll, key,
          "cannot be combined with " + std::string(uneven_key()) + ", expected false, found true",
          "drop one of the two");
    }
    if (rest_ < 0 || middle_ < 0 || (middle_ == 0 && rest_ != 0)) {
      return c_.error("S306", kAll, uneven_key(),
                      stage_text() + " = " + num(layers_ - rest_) + " layers in " + num(stages_) +
                          " stages, the model has " + num(layers_),
                      fix_of_sum());
    }
    if (middle_ > 0 && rest_ % middle_ != 0) {
      return c_.error("S305", kAll, uneven_key(),
                      num(rest_) + " layers left for " + num(middle_) +
                          " middle stages do not divide (remainder " + num(rest_ % middle_) + ")",
                      fix_of_rest());
    }
    if (c_.usable({c_.kVirtual}) && virtual_size() > 1 && stages_ > 1) check_uneven_virtual();
  }

  std::string fix_of_sum() const {
    if (stages_ == 1) return "set it to " + num(layers_) + ", or drop the key";
    if (stages_ == 2 && first_ && last_ && *first_ < layers_) {
      return "set num_layers_in_last_pipeline_stage to " + num(layers_ - *first_);
    }
    return "choose sizes that sum to " + num(layers_);
  }

  // The sizes on both sides of the given one that leave a multiple of the middle stages.
  std::string fix_of_rest() const {
    const std::int64_t given = first_ ? *first_ : *last_;
    const std::int64_t above = given + rest_ % middle_;
    const std::int64_t below = above - middle_;
    return "set " + std::string(uneven_key()) + " to " + (below > 0 ? num(below) + " or " : "") +
           num(above);
  }

  // S308.
  void check_uneven_virtual() {
    const std::int64_t v = virtual_size();
    const auto check = [&](const char* key, const char* stage, std::int64_t layers) {
      if (layers % v == 0) return;
      c_.error("S308", kAll, key,
               std::string(stage) + " stage: " + num(layers) + " layers do not divide into " +
                   num(v) + " virtual stages",
               "choose a multiple of " + num(v) + ", or other virtual stages");
    };
    if (first_) check(c_.kFirst, "first", *first_);
    if (last_) check(c_.kLast, "last", *last_);
    if (middle_ > 0) check(c_.kVirtual, "middle", rest_ / middle_);
  }

  // S302, S303 in a chain; S311, S312.
  void check_even() {
    if (!c_.usable({c_.kEmbedding, c_.kLoss})) return;
    const std::int64_t total = layers_ + counted_;
    const bool even = c_.usable({c_.kFirst, c_.kLast}) && !first_ && !last_ && !layout_given_ &&
                      !layout_has("S114");
    if (even && total % stages_ != 0) {
      c_.error("S302", kAll, c_.kPp,
               num(total) + " layers do not divide into " + num(stages_) + " stages (remainder " +
                   num(total % stages_) + ")",
               fix_of_stages());
    } else if (even && c_.usable({c_.kVirtual}) && total / stages_ % virtual_size() != 0) {
      c_.error("S303", kAll, c_.kVirtual,
               num(total / stages_) + " layers a stage do not divide into " + num(virtual_size()) +
                   " virtual stages",
               "choose one of " + small_divisors(total / stages_));
    }
    if (counted_ > 0 && c_.usable({c_.kVirtual}) && virtual_size() == 1) check_accounted();
    if (counted_ > 0 && c_.facts.experts > 0) {
      c_.warning("S312", k011,
                 s_.account_for_embedding_in_pipeline_split ? c_.kEmbedding : c_.kLoss,
                 "the training script refuses this for MoE models while a balancing or z loss is "
                 "on (the default), expected false, found true",
                 "set first and last stages instead");
    }
  }

  // S311: an extra test of 0.11 alone.
  void check_accounted() {
    const std::int64_t rest = stages_ - counted_;
    if (rest != 0 && layers_ % rest == 0) return;
    c_.error("S311", k011, c_.kPp,
             "0.11 wants pp-" + num(counted_) + " = " + num(rest) + " to divide " + num(layers_) +
                 " layers",
             "set virtual_pipeline_model_parallel_size, or use 0.13");
  }

  std::string fix_of_stages() const {
    std::string fix;
    if (stages_ > 2) {
      // Equal first and last stages next to the mean that leave a multiple of the middle stages.
      const std::int64_t mean = layers_ / stages_;
      for (std::int64_t step = 0; step < 64 && fix.empty(); ++step) {
        for (const std::int64_t size : {mean - step, mean + step}) {
          const std::int64_t rest = layers_ - 2 * size;
          if (size < 1 || rest <= 0 || rest % (stages_ - 2) != 0) continue;
          fix = "set num_layers_in_first_ and _last_pipeline_stage to " + num(size) + ", or ";
          break;
        }
      }
    }
    for (std::int64_t flags = 1; counted_ == 0 && flags <= 2; ++flags) {
      if ((layers_ + flags) % stages_ != 0) continue;
      fix += (flags == 1 ? "account for the embedding or the loss ("
                         : "account for the embedding and the loss (") +
             num(layers_) + "+" + num(flags) + " = " + num(layers_ + flags) + " = " + num(stages_) +
             "·" + num((layers_ + flags) / stages_) + "), or ";
      break;
    }
    return fix + "give a pipeline_model_parallel_layout";
  }

  // S320, S321, S322 in a chain; S323-S327.
  void check_layout() {
    if (!layout_given_) return;
    c_.error("S327", k011, c_.kLayout, "0.11 knows no layouts, expected none",
             "set first and last stages instead, or use 0.13");
    if (!c_.in_force(kSince013)) return;
    if (layout_conflicts()) return;
    if (layout_has("S321")) return report_unreadable_layout();
    const std::vector<std::string>& layout = *s_.pipeline_model_parallel_layout;
    if (c_.usable({c_.kPp})) {
      const auto positions = static_cast<std::int64_t>(layout.size());
      if (positions % stages_ != 0) {
        c_.error(
            "S322", kSince013, c_.kLayout,
            "layout has " + num(positions) + " stages, which pp = " + num(stages_) + " must divide",
            "write a multiple of " + num(stages_) + " stages");
      } else {
        implied_virtual_ = positions / stages_;
        if (c_.gives(c_.kVirtual) && s_.virtual_pipeline_model_parallel_size &&
            virtual_size() != implied_virtual_) {
          c_.error("S323", kSince013, c_.kVirtual,
                   "layout implies " + num(implied_virtual_) + " virtual stages, found " +
                       num(virtual_size()),
                   "drop the key");
        }
      }
    }
    check_letters(layout);
  }

  // S320.
  bool layout_conflicts() {
    if (!c_.usable({c_.kFirst, c_.kLast, c_.kEmbedding, c_.kLoss})) return false;
    const char* other = first_                                       ? c_.kFirst
                        : last_                                      ? c_.kLast
                        : s_.account_for_embedding_in_pipeline_split ? c_.kEmbedding
                        : s_.account_for_loss_in_pipeline_split      ? c_.kLoss
                                                                     : nullptr;
    if (other == nullptr) return false;
    c_.error("S320", kSince013, c_.kLayout, "layout cannot be combined with " + std::string(other),
             "drop one of the two");
    return true;
  }

  // S321.
  void report_unreadable_layout() {
    for (const KeyFault& fault : c_.entry.reading.faults) {
      if (fault.rule == "S321") {
        c_.error("S321", kSince013, c_.kLayout, fault.message, fault.fix);
      }
    }
  }

  // S324, S325, S326.
  void check_letters(const std::vector<std::string>& layout) {
    const std::string text = join_pipeline_layout(layout);
    const auto count = [&](char letter) {
      return static_cast<std::int64_t>(std::count(text.begin(), text.end(), letter));
    };
    if (count('E') != 1 || layout.front().empty() || layout.front().front() != 'E') {
      c_.error("S324", kSince013, c_.kLayout,
               "layout must start with its one E, found " + num(count('E')) + " E and " +
                   (text.empty() ? "nothing" : quoted(text.substr(0, 1))) + " first",
               "write E once, as the first letter");
    } else if (count('L') != 1 || layout.back().empty() || layout.back().back() != 'L') {
      c_.error("S324", kSince013, c_.kLayout,
               "layout must end with its one L, found " + num(count('L')) + " L and " +
                   quoted(text.substr(text.size() - 1)) + " last",
               "write L once, as the last letter");
    }
    if (layers_ > 0 && count('t') != layers_) {
      c_.error("S325", kSince013, c_.kLayout,
               "layout holds " + num(count('t')) + " decoder layers, the model has " + num(layers_),
               "write " + num(layers_) + " t in all");
    }
    check_mtp_letters(layout, text, count('m'));
  }

  // S326.
  void check_mtp_letters(const std::vector<std::string>& layout, const std::string& text,
                         std::int64_t found) {
    const bool only_013 = c_.options.version == MegatronVersion::V013;
    if (found > 0 && only_013) {
      return c_.error("S326", k013, c_.kLayout,
                      "0.13 knows no MTP layers in a layout, expected no m, found " + num(found),
                      "drop every m, or use a newer version");
    }
    std::string message;
    std::int64_t holders = 0;
    bool outside_last_chunk = false;
    for (std::size_t i = 0; i < layout.size(); ++i) {
      if (layout[i].find('m') == std::string::npos) continue;
      ++holders;
      const std::int64_t chunk = implied_virtual_ > 0 ? static_cast<std::int64_t>(i) / stages_ : 0;
      outside_last_chunk |= implied_virtual_ > 0 && chunk != implied_virtual_ - 1;
    }
    if (found != c_.facts.num_mtp_layers) {
      message = "layout holds " + num(found) + " MTP layers, the model has " +
                num(c_.facts.num_mtp_layers);
    } else if (found > 0 && text.find('m') < text.rfind('t') &&
               text.rfind('t') != std::string::npos) {
      message = "MTP layers must come after every decoder layer, found m before t";
    } else if (holders > 1) {
      message = "MTP layers must stand in one stage, found them in " + num(holders);
    } else if (outside_last_chunk) {
      message = "MTP layers must stand in the last virtual stage";
    }
    if (!message.empty()) {
      c_.error("S326", kNewest, c_.kLayout, message,
               "write " + num(c_.facts.num_mtp_layers) + " m, all in one of the last stages");
    } else if (found > 0) {
      c_.error("S326", k013, c_.kLayout, "a layout must hold no m there, found " + num(found),
               "use a newer version");
    }
  }

  // S301, S330, S331.
  void check_virtual() {
    if (!c_.usable({c_.kPp})) return;
    const bool implied = implied_virtual_ > 1 && virtual_size() == 1;
    const bool known = c_.usable({c_.kVirtual}) || implied;
    const std::int64_t v = implied ? implied_virtual_ : virtual_size();
    const char* key = implied ? c_.kLayout : c_.kVirtual;
    if (known && v > 1 && stages_ == 1) {
      c_.error("S301", implied ? kSince013 : kAll, key,
               "virtual stages need pipeline_model_parallel_size > 1, found 1",
               implied ? "write a layout of one stage" : "drop the key");
    }
    if (known && v > 1 && stages_ == 2) {
      c_.note("S330", kAll, key,
              "virtual stages with two pipeline stages are refused when the overlap of "
              "point-to-point communication is off");
    }
    if (!c_.entry.has_error && layers_ > 0) check_balance();
  }

  // S331.
  void check_balance() {
    std::vector<StageSpan> spans;
    try {
      spans = pipeline_split(s_, c_.facts.num_layers, c_.version());
    } catch (const Error&) {
      return;  // a rule of this family speaks, or a pipeline without a layer for most stages
    }
    std::vector<std::int64_t> layers(static_cast<std::size_t>(stages_));
    for (const StageSpan& span : spans) {
      layers[static_cast<std::size_t>(span.stage)] += span.num_layers;
    }
    const auto [least, most] = std::minmax_element(layers.begin(), layers.end());
    if (*least > 0 && *most <= 2 * *least) return;
    c_.note("S331", kAll, c_.kPp,
            "stages hold " + num(*least) + " to " + num(*most) + " decoder layers");
  }

  EntryChecker& c_;
  const Strategy& s_;
  std::int64_t layers_;  // L
  std::int64_t stages_;  // P
  std::optional<std::int32_t> first_, last_;
  std::int64_t middle_;   // stages between the given ones
  std::int64_t rest_;     // layers for them
  std::int64_t counted_;  // 1 each for the embedding and the loss
  bool layout_given_ = false;
  std::int64_t implied_virtual_ = 0;  // by the layout; 0: none
};

}  // namespace

void check_pipeline(EntryChecker& c) {
  const bool error_before = c.entry.has_error;
  c.entry.has_error = false;
  PipelineChecker(c).run();
  c.entry.pipeline_ok = !c.entry.has_error;
  c.entry.has_error |= error_before;
}

}  // namespace plan::check
