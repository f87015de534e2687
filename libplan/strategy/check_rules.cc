// The table of rules: one line on what each is about.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "libplan/strategy/check_format.h"

namespace plan::check {
namespace {

using Rule = std::pair<std::string_view, std::string_view>;

constexpr std::array kRules = std::to_array<Rule>({
    {"S101", "the text must be RFC 8259 JSON in UTF-8"},
    {"S102", "the text must not be nested deeper than 32 levels or be longer than 16 MiB"},
    {"S103", "the top level must be a list"},
    {"S104", "the list must hold a strategy"},
    {"S105", "a key must not be given twice"},
    {"S106", "a byte order mark is skipped"},
    {"S107", "a selector must be a name or an index of the list"},
    {"S108", "a name of digits reads as an index"},
    {"S109", "names must differ"},
    {"S110", "two entries mean the same strategy"},
    {"S111", "an entry must be an object"},
    {"S112", "the key must be known"},
    {"S113", "required keys must be given"},
    {"S114", "the value must have the key's type"},
    {"S115", "the value must be in range"},
    {"S120", "the topology must have the devices"},
    {"S121", "a tensor-parallel group spans nodes"},
    {"S122", "not every switch is checked"},
    {"S201", "tp*pp*cp must divide the world size"},
    {"S202", "etp*ep*pp must divide the world size"},
    {"S203", "the order must hold known tokens, each once"},
    {"S204", "the order must hold every token whose size is above 1"},
    {"S205", "the order must end in pp unless expert DP equals DP"},
    {"S206", "dense layers and experts must have the same pipelines"},
    {"S207", "Megatron's training script cannot ask for this order"},
    {"S208", "the newest Megatron needs tp in the order"},
    {"S301", "virtual stages need more than one pipeline stage"},
    {"S302", "the pipeline stages must divide the layers"},
    {"S303", "the virtual stages must divide the layers of a stage"},
    {"S304", "uneven stages and accounting exclude each other"},
    {"S305", "the layers left must divide into the middle stages"},
    {"S306", "first and last stage must leave the right number of layers"},
    {"S307", "middle stages must hold layers"},
    {"S308", "the virtual stages must divide each uneven stage"},
    {"S309", "older versions build layers twice when only the last stage is given"},
    {"S310", "0.11 needs a stage between first and last"},
    {"S311", "0.11 tests the layers against the stages without embedding and loss"},
    {"S312", "0.11 refuses accounting on MoE models with an auxiliary loss"},
    {"S320", "a layout excludes the other ways to split layers"},
    {"S321", "a layout must be readable"},
    {"S322", "the pipeline stages must divide the layout's stages"},
    {"S323", "the virtual size must be what the layout implies"},
    {"S324", "a layout starts with its E and ends with its L"},
    {"S325", "a layout must hold every decoder layer"},
    {"S326", "a layout must hold the MTP layers in one place at the end"},
    {"S327", "0.11 knows no layouts"},
    {"S330", "two stages with virtual stages need overlapped communication"},
    {"S331", "stages are uneven"},
    {"S401", "tp must divide the attention heads"},
    {"S402", "tp and the KV groups must divide one another"},
    {"S403", "older versions need tp to divide the KV groups"},
    {"S404", "tp must divide the QKV rows"},
    {"S405", "tp must divide the FFN size"},
    {"S406", "tp must divide the shared experts' FFN size"},
    {"S407", "the vocabulary is padded by more than 1 %"},
    {"S408", "tp must divide the down projections of latent attention"},
    {"S409", "tp*cp must divide the heads of gated-delta-net layers"},
    {"S410", "the model's own sizes must divide"},
    {"S501", "a model without experts has no expert parallelism"},
    {"S502", "ep must divide the experts"},
    {"S503", "etp must divide the experts' FFN size"},
    {"S504", "0.11 needs sequential experts to have the dense FFN size"},
    {"S505", "MoE with tp needs sequence parallelism"},
    {"S506", "older versions reduce experts wrongly when ep is 1 and etp is not tp"},
    {"S507", "experts with a bias need etp 1"},
    {"S508", "older versions need bfloat16 for expert parallelism"},
    {"S509", "expert tensor parallelism of a dense model splits nothing"},
    {"S601", "the optimizer instances must divide dp*cp"},
    {"S602", "the optimizer instances must divide expert DP"},
    {"S603", "optimizer instances need the distributed optimizer"},
    {"S604", "every rank holds the whole optimizer state"},
    {"S605", "optimizer state is not sharded"},
    {"S606", "instances pair other ranks for dense state than for experts"},
    {"S651", "sequence parallelism needs tp above 1"},
    {"S652", "the sequence length must divide"},
    {"S653", "0.13 refuses MTP with context parallelism"},
    {"S701", "a switch changes the padded vocabulary"},
    {"S702", "a switch changes how optimizer state is sharded"},
    {"S703", "a switch gives up copies of the optimizer state"},
    {"S704", "a switch changes the order of the ranks"},
    {"S705", "dp times the micro batch must divide the global batch"},
    {"S706", "a switch after a failure loses state"},
    {"S707", "a switch changes the number of optimizers"},
    {"S708", "a switch changes the copies of the tied embedding"},
    {"S709", "ranks join or leave in a switch"},
    {"S801", "the training state must fit"},
    {"S802", "little memory is left"},
    {"S803", "a switch must free source state early"},
    {"S901", "ElasticMegatron wants tp to be a power of two"},
    {"S902", "ElasticMegatron wants equal stages and nothing else"},
    {"S903", "ElasticMegatron wants etp 1 on MoE models"},
    {"S904", "ElasticMegatron wants cp above 1 and instances that divide dp"},
    {"S905", "ElasticMegatron changes instances only with the world size"},
    {"S906", "ElasticMegatron wants the distributed optimizer"},
    {"S907", "ElasticMegatron wants tp above 1 with sequence parallelism"},
    {"S908", "ElasticMegatron takes the entries for one"},
});

}  // namespace

std::string_view summary_of_rule(std::string_view rule) {
  const auto known =
      std::find_if(kRules.begin(), kRules.end(), [&](const Rule& r) { return r.first == rule; });
  return known == kRules.end() ? std::string_view() : known->second;
}

}  // namespace plan::check
