#include "core/nn/llama.h"

#include "strategies/models/flops.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

nn::RopeScaling ToScaling(const spec::RopeScaling& scaling) {
  if (scaling.has_linear()) return {.kind = nn::RopeScaling::kLinear, .factor = scaling.linear().factor()};
  if (!scaling.has_llama3()) return {};
  const auto& llama3 = scaling.llama3();
  return {.kind = nn::RopeScaling::kLlama3,
          .factor = llama3.factor(),
          .low_freq_factor = llama3.low_freq_factor(),
          .high_freq_factor = llama3.high_freq_factor(),
          .original_sequence = llama3.original_sequence()};
}

// A model with experts (spec::Moe) is a Llama with other layers.
const spec::Llama& LlamaOf(const spec::Model& model) { return model.has_moe() ? model.moe().llama() : model.llama(); }

nn::LlamaConfig ToConfig(const spec::Model& model, DType dtype) {
  const spec::Llama& llama = LlamaOf(model);
  nn::LlamaConfig config = {.layers = llama.layers(),
                            .hidden = llama.hidden(),
                            .heads = llama.heads(),
                            .vocab = llama.vocab(),
                            .kv_heads = llama.kv_heads(),
                            .head_dim = llama.head_dim(),
                            .ffn = llama.ffn(),
                            .sequence = llama.sequence(),
                            .rope_theta = llama.rope_theta(),
                            .rope_scaling = ToScaling(llama.rope_scaling()),
                            .norm_eps = llama.norm_eps(),
                            .qkv_bias = llama.qkv_bias(),
                            .tied = llama.tied_embeddings(),
                            .unfused_attention = model.attention() == spec::Model::UNFUSED,
                            .dtype = dtype};
  if (!model.has_moe()) return config;
  const spec::Moe& moe = model.moe();
  config.experts = {.experts = moe.experts(),
                    .top_k = moe.top_k(),
                    .capacity_factor = moe.capacity_factor(),
                    .aux_loss = moe.aux_loss(),
                    .every = moe.every()};
  return config;
}

constexpr ModelKind Row(std::string_view name, spec::Model::KindCase kind) {
  return {
      .name = name,
      .kind = kind,
      .input = [](const spec::Model& m) -> ModelInput {
        return {ModelInput::kTokens, LlamaOf(m).sequence(), LlamaOf(m).vocab()};
      },
      .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part,
                 nn::Layers& layers) -> std::unique_ptr<nn::Module> {
        return std::make_unique<nn::LlamaModel>(ToConfig(m, types.parameter), part, layers);
      },
      .training_flops = TrainingFlopsOf<ToConfig>,
      .hardware_flops = HardwareFlopsOf<ToConfig>,
      .flops_by_block = FlopsByBlockOf<ToConfig>,
      .block = "transformer_block",
      .unit = "transformer_block",
      .blocks = [](const spec::Model& m) { return LlamaOf(m).layers(); },
      .boundary =
          [](const spec::Model& m, int64_t, const BoundaryShare& share) {
            return HiddenStates(LlamaOf(m).sequence(), LlamaOf(m).hidden(), share);
          },
  };
}

}  // namespace

constinit const ModelKind kLlamaModel = Row("llama", spec::Model::kLlama);
constinit const ModelKind kMoeModel = Row("moe", spec::Model::kMoe);

}  // namespace twofold
