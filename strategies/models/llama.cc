#include "core/nn/llama.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/proto/spec.pb.h"
#include "strategies/models/configured_model.h"

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

nn::LlamaConfig ToConfig(const spec::Llama& llama, const ModelOptions& options) {
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
          .unfused_attention = options.unfused_attention};
}

using LlamaSizes = TransformerModel<nn::LlamaConfig, nn::LlamaModel>;

std::unique_ptr<const Model> MakeLlama(const google::protobuf::Message& sizes, const ModelOptions& options) {
  return std::make_unique<LlamaSizes>(kLlamaModel, ToConfig(SizesAs<spec::Llama>(sizes), options));
}

std::shared_ptr<const nn::AssumedRouting> ToRouting(const spec::Moe& moe) {
  std::vector<nn::AssumedRouting::Row> rows;
  if (moe.routing().has_zipf()) {
    const auto& zipf = moe.routing().zipf();
    rows.push_back({.shares = nn::ZipfShares(moe.experts(), zipf.exponent(), zipf.seed())});
  }
  for (const spec::Routing::Row& row : moe.routing().counts().rows()) {
    rows.push_back({.block = row.block(),
                    .rank = row.has_rank() ? row.rank() : -1,
                    .shares = {row.tokens().begin(), row.tokens().end()}});
  }
  return rows.empty() ? nullptr : std::make_shared<const nn::AssumedRouting>(std::move(rows));
}

// A model with experts (Mixtral) is a Llama with other layers.
std::unique_ptr<const Model> MakeMoe(const google::protobuf::Message& sizes, const ModelOptions& options) {
  const auto& moe = SizesAs<spec::Moe>(sizes);
  nn::LlamaConfig config = ToConfig(moe.llama(), options);
  config.experts = {.experts = moe.experts(),
                    .top_k = moe.top_k(),
                    .dropless = moe.dropless(),
                    .capacity_factor = moe.capacity_factor(),
                    .aux_loss = moe.aux_loss(),
                    .every = moe.every(),
                    .assumed = ToRouting(moe)};
  return std::make_unique<LlamaSizes>(kMoeModel, std::move(config));
}

}  // namespace

constinit const ModelKind kLlamaModel = {.name = "llama", .make = MakeLlama};
constinit const ModelKind kMoeModel = {.name = "moe", .make = MakeMoe};

}  // namespace twofold
