#include "libplan/strategy/pipeline_split.h"

#include <algorithm>
#include <string>

#include "libplan/base/error.h"

namespace plan {
namespace {

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorCode::BadInput, message); }

std::string quote(std::int64_t number) { return std::to_string(number); }

std::int32_t count_letters(const std::string& position, char letter) {
  return static_cast<std::int32_t>(std::count(position.begin(), position.end(), letter));
}

std::vector<StageSpan> positions_of(std::int32_t stages, std::int32_t chunks) {
  if (std::int64_t{stages} * chunks > kMaxPipelinePositions) {
    refuse("expected at most " + quote(kMaxPipelinePositions) + " pipeline positions, found " +
           quote(std::int64_t{stages} * chunks));
  }
  std::vector<StageSpan> spans;
  for (std::int32_t v = 0; v < chunks; ++v) {
    for (std::int32_t s = 0; s < stages; ++s) spans.push_back({v * stages + s, s, v, 0, 0});
  }
  return spans;
}

std::vector<StageSpan> split_by_layout(const Strategy& s, std::int32_t num_layers,
                                       MegatronVersion version) {
  if (version == MegatronVersion::V011) refuse("0.11 knows no pipeline_model_parallel_layout");
  const std::vector<std::string>& layout = *s.pipeline_model_parallel_layout;
  const std::int32_t chunks = virtual_stages(s);
  if (s.num_layers_in_first_pipeline_stage || s.num_layers_in_last_pipeline_stage ||
      s.account_for_embedding_in_pipeline_split || s.account_for_loss_in_pipeline_split) {
    refuse(
        "a pipeline layout cannot be combined with layers in the first or last stage, or with "
        "accounting for embedding or loss");
  }
  if (s.virtual_pipeline_model_parallel_size && s.vpp() != chunks) {
    refuse("the layout implies " + quote(chunks) + " virtual stages, found " + quote(s.vpp()));
  }
  std::vector<StageSpan> spans = positions_of(s.pipeline_model_parallel_size, chunks);
  std::int32_t next = 0;
  for (StageSpan& span : spans) {
    span.first_layer = next;
    span.num_layers = count_letters(layout[static_cast<std::size_t>(span.position)], 't');
    next += span.num_layers;
  }
  if (next != num_layers) {
    refuse("the layout holds " + quote(next) + " decoder layers, the model has " +
           quote(num_layers));
  }
  return spans;
}

// Layers of the first, the last and each middle stage.
struct UnevenStages {
  std::int32_t first = 0, last = 0, middle = 0;
  std::int32_t middle_stages = 0;
};

UnevenStages uneven_stages(const Strategy& s, std::int32_t num_layers, MegatronVersion version) {
  const bool has_first = s.num_layers_in_first_pipeline_stage.has_value();
  const bool has_last = s.num_layers_in_last_pipeline_stage.has_value();
  UnevenStages stages;
  stages.first = s.num_layers_in_first_pipeline_stage.value_or(0);
  stages.last = s.num_layers_in_last_pipeline_stage.value_or(0);
  stages.middle_stages = s.pipeline_model_parallel_size - (has_first ? 1 : 0) - (has_last ? 1 : 0);
  const std::int64_t rest = std::int64_t{num_layers} - stages.first - stages.last;
  if (rest < 0 || stages.middle_stages < 0 || (stages.middle_stages == 0 && rest != 0)) {
    refuse("first " + quote(stages.first) + " + last " + quote(stages.last) + " layers in " +
           quote(s.pipeline_model_parallel_size) + " stages do not make the model's " +
           quote(num_layers));
  }
  if (stages.middle_stages == 0) {
    if (version == MegatronVersion::V011) {
      refuse("0.11 divides by zero when no stage is left between first and last");
    }
    return stages;
  }
  if (rest % stages.middle_stages != 0) {
    refuse(quote(rest) + " layers left do not divide into " + quote(stages.middle_stages) +
           " middle stages");
  }
  if (rest == 0 && version == MegatronVersion::V020) {
    refuse("no layer is left for " + quote(stages.middle_stages) + " middle stages");
  }
  stages.middle = static_cast<std::int32_t>(rest / stages.middle_stages);
  return stages;
}

std::vector<StageSpan> split_unevenly(const Strategy& s, std::int32_t num_layers,
                                      MegatronVersion version) {
  if (s.account_for_embedding_in_pipeline_split || s.account_for_loss_in_pipeline_split) {
    refuse(
        "layers in the first or last stage cannot be combined with accounting for embedding or "
        "loss");
  }
  const UnevenStages uneven = uneven_stages(s, num_layers, version);
  const std::int32_t stages = s.pipeline_model_parallel_size;
  const std::int32_t chunks = s.vpp();
  std::vector<StageSpan> spans = positions_of(stages, chunks);
  std::vector<std::int32_t> per_chunk;
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const bool first = stage == 0 && s.num_layers_in_first_pipeline_stage;
    const bool last = stage == stages - 1 && s.num_layers_in_last_pipeline_stage;
    const std::int32_t layers = first ? uneven.first : last ? uneven.last : uneven.middle;
    if (layers % chunks != 0) {
      refuse(quote(layers) + " layers of stage " + quote(stage) + " do not divide into " +
             quote(chunks) + " virtual stages");
    }
    per_chunk.push_back(layers / chunks);
  }
  const bool starts_too_early =
      version != MegatronVersion::V020 && chunks > 1 && !s.num_layers_in_first_pipeline_stage;
  std::int32_t next = 0;
  for (StageSpan& span : spans) {
    span.num_layers = per_chunk[static_cast<std::size_t>(span.stage)];
    span.first_layer = next - (starts_too_early && span.stage > 0 ? per_chunk[0] : 0);
    next += span.num_layers;
  }
  return spans;
}

std::vector<StageSpan> split_evenly(const Strategy& s, std::int32_t num_layers,
                                    MegatronVersion version) {
  const std::int32_t stages = s.pipeline_model_parallel_size;
  const std::int32_t chunks = s.vpp();
  const std::int32_t embedding = s.account_for_embedding_in_pipeline_split ? 1 : 0;
  const std::int32_t loss = s.account_for_loss_in_pipeline_split ? 1 : 0;
  const std::int64_t counted = std::int64_t{num_layers} + embedding + loss;
  if (counted % stages != 0) {
    refuse(quote(counted) + " layers do not divide into " + quote(stages) + " stages");
  }
  if (counted / stages % chunks != 0) {
    refuse(quote(counted / stages) + " layers a stage do not divide into " + quote(chunks) +
           " virtual stages");
  }
  if (version == MegatronVersion::V011 && chunks == 1 && embedding + loss > 0) {
    const std::int32_t rest = stages - embedding - loss;
    if (rest == 0 || num_layers % rest != 0) {
      refuse("0.11 wants pp-" + quote(embedding + loss) + " = " + quote(rest) + " to divide " +
             quote(num_layers) + " layers");
    }
  }
  const auto each = static_cast<std::int32_t>(counted / stages / chunks);
  std::vector<StageSpan> spans = positions_of(stages, chunks);
  for (StageSpan& span : spans) {
    const bool first = span.position == 0;
    const bool last = span.position == stages * chunks - 1;
    span.first_layer = span.position * each - (first ? 0 : embedding);
    span.num_layers = each - (first ? embedding : 0) - (last ? loss : 0);
  }
  return spans;
}

}  // namespace

std::int32_t virtual_stages(const Strategy& s) {
  if (!s.pipeline_model_parallel_layout) return s.vpp();
  const std::size_t positions = s.pipeline_model_parallel_layout->size();
  const auto stages = static_cast<std::size_t>(s.pipeline_model_parallel_size);
  if (positions % stages != 0) {
    refuse("the layout has " + std::to_string(positions) + " stages, pp is " +
           std::to_string(stages));
  }
  return static_cast<std::int32_t>(positions / stages);
}

std::vector<StageSpan> pipeline_split(const Strategy& s, std::int32_t num_layers,
                                      MegatronVersion version) {
  if (s.pipeline_model_parallel_size == 1 && virtual_stages(s) > 1) {
    refuse("virtual stages need pipeline_model_parallel_size > 1, found 1");
  }
  if (s.pipeline_model_parallel_layout) return split_by_layout(s, num_layers, version);
  if (s.num_layers_in_first_pipeline_stage || s.num_layers_in_last_pipeline_stage) {
    return split_unevenly(s, num_layers, version);
  }
  return split_evenly(s, num_layers, version);
}

}  // namespace plan
