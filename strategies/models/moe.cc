#include "strategies/models/flops.h"
#include "strategies/models/kinds.h"
#include "strategies/models/llama.h"

namespace twofold {
namespace {

nn::LlamaConfig ToConfig(const spec::Model& model, DType dtype) {
  const spec::Moe& moe = model.moe();
  nn::LlamaConfig config = ToLlamaConfig(moe.llama(), model, dtype);
  config.experts = {.experts = moe.experts(),
                    .top_k = moe.top_k(),
                    .capacity_factor = moe.capacity_factor(),
                    .aux_loss = moe.aux_loss(),
                    .every = moe.every()};
  return config;
}

}  // namespace

constinit const ModelKind kMoeModel = {
    .name = "moe",
    .kind = spec::Model::kMoe,
    .input = [](const spec::Model& m) -> ModelInput {
      return {ModelInput::kTokens, m.moe().llama().sequence(), m.moe().llama().vocab()};
    },
    .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part,
               nn::Layers& layers) -> std::unique_ptr<nn::Module> {
      return std::make_unique<nn::LlamaModel>(ToConfig(m, types.parameter), part, layers);
    },
    .splits = true,
    .training_flops = TrainingFlopsOf<ToConfig>,
    .hardware_flops = HardwareFlopsOf<ToConfig>,
    .block = "transformer_block",
    .unit = "transformer_block",
    .blocks = [](const spec::Model& m) { return m.moe().llama().layers(); }};

}  // namespace twofold
