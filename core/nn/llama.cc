#include "core/nn/llama.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/nn/swiglu.h"

namespace twofold::nn {
namespace {

constexpr Init kInit{Init::kNormal, 0, 0.02};

Init ProjectionInit(const LlamaConfig& c) {
  return {Init::kNormal, 0, kInit.b / std::sqrt(2.0 * static_cast<double>(c.layers))};
}

}  // namespace

std::shared_ptr<RotaryTable> MakeRotaryTable(const LlamaConfig& c) {
  const RopeConfig rope{.head_dim = c.head_width(), .theta = c.rope_theta, .scaling = c.rope_scaling};
  return std::make_shared<RotaryTable>(rope, c.sequence, c.dtype);
}

MixtureConfig MixtureOf(const LlamaConfig& c, int64_t block) {
  return {.hidden = c.hidden,
          .ffn = c.ffn,
          .experts = c.experts.experts,
          .top_k = c.experts.top_k,
          .dropless = c.experts.dropless,
          .capacity_factor = c.experts.capacity_factor,
          .aux_loss = c.experts.aux_loss,
          .assumed = c.experts.assumed,
          .block = block,
          .dtype = c.dtype,
          .router_init = kInit,
          .gate_up_init = kInit,
          .projection_init = ProjectionInit(c)};
}

std::unique_ptr<TransformerBlock> MakeLlamaBlock(const LlamaConfig& c, std::shared_ptr<RotaryTable> rotary,
                                                 Layers& layers, int64_t number) {
  const BlockConfig block{.hidden = c.hidden, .norm = Norm::kRmsNorm, .norm_eps = c.norm_eps, .dtype = c.dtype};
  const AttentionConfig attention{.hidden = c.hidden,
                                  .heads = c.heads,
                                  .kv_heads = c.kv(),
                                  .head_dim = c.head_width(),
                                  .qkv_bias = c.qkv_bias,
                                  .projection_bias = false,
                                  .rotary = std::move(rotary),
                                  .unfused = c.unfused_attention,
                                  .dtype = c.dtype,
                                  .qkv_init = kInit,
                                  .projection_init = ProjectionInit(c)};
  const GatedMlpConfig mlp{
      .hidden = c.hidden, .ffn = c.ffn, .dtype = c.dtype, .gate_up_init = kInit, .projection_init = ProjectionInit(c)};
  std::unique_ptr<Module> feed_forward;
  if (c.experts.At(number))
    feed_forward = layers.MakeExperts(MixtureOf(c, number));
  else
    feed_forward = std::make_unique<GatedMlp>(mlp, layers);
  return std::make_unique<TransformerBlock>(block, std::make_unique<CausalSelfAttention>(attention, layers),
                                            std::move(feed_forward), layers);
}

LlamaModel::LlamaModel(const LlamaConfig& c, const ModelPart& part, Layers& layers) : config_(c) {
  part.CheckWithin(c.layers);
  Parameter* token_table =
      part.embedding ? AddTokenEmbedding(layers, c.vocab, c.hidden, c.dtype, kInit, c.tied && !part.head) : nullptr;
  const std::shared_ptr<RotaryTable> rotary = MakeRotaryTable(c);
  for (int64_t i = part.first_block; i < part.last_block; ++i)
    Add(absl::StrCat("blocks.", i), MakeLlamaBlock(c, rotary, layers, i));
  if (part.head) {
    AddHead(layers, layers.MakeNorm(Norm::kRmsNorm, c.hidden, c.dtype, c.norm_eps),
            {.in = c.hidden, .out = c.vocab, .bias = false, .dtype = c.dtype, .weight_init = kInit}, c.tied,
            token_table);
  }
}

}  // namespace twofold::nn
