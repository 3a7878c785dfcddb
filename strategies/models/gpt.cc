#include "core/nn/gpt.h"

#include "core/proto/spec.pb.h"
#include "strategies/models/configured_model.h"

namespace twofold {
namespace {

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
                               .tied = gpt.tied_embeddings()});
}

}  // namespace

constinit const ModelKind kGptModel = {.name = "gpt", .make = MakeGpt};

}  // namespace twofold
