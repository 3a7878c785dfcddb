#include "strategies/models/llama.h"

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

}  // namespace

nn::LlamaConfig ToLlamaConfig(const spec::Llama& llama, const spec::Model& model, DType dtype) {
  return {.layers = llama.layers(),
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
}

namespace {

nn::LlamaConfig ToConfig(const spec::Model& model, DType dtype) { return ToLlamaConfig(model.llama(), model, dtype); }

}  // namespace

constinit const ModelKind kLlamaModel = {.name = "llama",
                                         .kind = spec::Model::kLlama,
                                         .input = [](const spec::Model& m) -> ModelInput {
                                           return {ModelInput::kTokens, m.llama().sequence(), m.llama().vocab()};
                                         },
                                         .make = [](const spec::Model& m, ModelTypes types, const nn::ModelPart& part,
                                                    nn::Layers& layers) -> std::unique_ptr<nn::Module> {
                                           return std::make_unique<nn::LlamaModel>(ToConfig(m, types.parameter), part,
                                                                                   layers);
                                         },
                                         .splits = true,
                                         .training_flops = TrainingFlopsOf<ToConfig>,
                                         .hardware_flops = HardwareFlopsOf<ToConfig>,
                                         .block = "transformer_block",
                                         .unit = "transformer_block",
                                         .blocks = [](const spec::Model& m) { return m.llama().layers(); }};

}  // namespace twofold
