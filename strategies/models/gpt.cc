#include "core/nn/gpt.h"

#include "core/proto/spec.pb.h"
#include "strategies/models/configured_model.h"

namespace twofold {
namespace {

nn::GptConfig::Positions PositionsOf(spec::Gpt::Positions positions) {
  switch (positions) {
    case spec::Gpt::LEARNED: return nn::GptConfig::kLearned;
    case spec::Gpt::NONE: return nn::GptConfig::kNone;
    case spec::Gpt::ROTARY: return nn::GptConfig::kRotary;
  }
  return nn::GptConfig::kLearned;
}

std::unique_ptr<const Model> MakeGpt(const google::protobuf::Message& sizes, const ModelOptions& options) {
  const auto& gpt = SizesAs<spec::Gpt>(sizes);
  return std::make_unique<TransformerModel<nn::GptConfig, nn::GptModel>>(
      kGptModel, nn::GptConfig{.layers = gpt.layers(),
                               .hidden = gpt.hidden(),
                               .heads = gpt.heads(),
                               .vocab = gpt.vocab(),
                               .sequence = gpt.sequence(),
                               .ffn = gpt.ffn(),
                               .dropout = gpt.dropout(),
                               .attention_dropout = gpt.attention_dropout(),
                               .unfused_attention = options.unfused_attention,
                               .masks = options.masks,
                               .positions = PositionsOf(gpt.positions()),
                               .rope_theta = gpt.rope_theta(),
                               .kv_heads = gpt.has_kv_heads() ? gpt.kv_heads() : gpt.heads(),
                               .squared_relu = gpt.activation() == spec::Gpt::SQUARED_RELU,
                               .parallel_blocks = gpt.parallel_blocks(),
                               .layer_norm_1p = gpt.layer_norm_1p(),
                               .embedding_norm = gpt.embedding_norm(),
                               .biases = gpt.biases(),
                               .tied = gpt.tied_embeddings()});
}

}  // namespace

constinit const ModelKind kGptModel = {.name = "gpt", .make = MakeGpt};

}  // namespace twofold
