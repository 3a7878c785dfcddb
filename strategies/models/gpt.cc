#include "core/nn/gpt.h"

#include "strategies/models/flops.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

nn::GptConfig ToConfig(const spec::Model& model, DType dtype) {
  const spec::Gpt& gpt = model.gpt();
  return {.layers = gpt.layers(),
          .hidden = gpt.hidden(),
          .heads = gpt.heads(),
          .vocab = gpt.vocab(),
          .sequence = gpt.sequence(),
          .ffn = gpt.ffn(),
          .dropout = gpt.dropout(),
          .attention_dropout = gpt.attention_dropout(),
          .unfused_attention = model.attention() == spec::Model::UNFUSED,
          .masks = MasksOf(model),
          .tied = gpt.tied_embeddings(),
          .dtype = dtype};
}

}  // namespace

constinit const ModelKind kGptModel = {
    .name = "gpt",
    .kind = spec::Model::kGpt,
    .input = [](const spec::Model& m) -> ModelInput {
      return {ModelInput::kTokens, m.gpt().sequence(), m.gpt().vocab()};
    },
    .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part,
               nn::Layers& layers) -> std::unique_ptr<nn::Module> {
      return std::make_unique<nn::GptModel>(ToConfig(m, types.parameter), part, layers);
    },
    .training_flops = TrainingFlopsOf<ToConfig>,
    .hardware_flops = HardwareFlopsOf<ToConfig>,
    .flops_by_block = FlopsByBlockOf<ToConfig>,
    .block = "transformer_block",
    .unit = "transformer_block",
    .blocks = [](const spec::Model& m) { return m.gpt().layers(); },
    .boundary = [](const spec::Model& m, int64_t,
                   const BoundaryShare& share) { return HiddenStates(m.gpt().sequence(), m.gpt().hidden(), share); },
};

}  // namespace twofold
