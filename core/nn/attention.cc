#include "core/nn/attention.h"

#include "core/nn/rows.h"

namespace twofold::nn {

Tensor AttentionCore::Forward(Context& ctx, const Tensor& qkv, Saved& saved) {
  const int64_t head_dim = qkv.dim(-1) / (heads_ + 2 * kv_heads_);
  Tensor out = ctx.Activation(WithLast(qkv.shape(), heads_ * head_dim), qkv.dtype());
  Tensor lse = ctx.Activation(Shape{qkv.dim(0), heads_, qkv.dim(1)}, ops::AccumulationType(qkv.dtype()));
  ctx.Launch(
      ops::AttentionForward{.qkv = qkv, .out = out, .lse = lse, .heads = heads_, .kv_heads = kv_heads_});
  saved[kQkv] = qkv;
  saved[kOut] = out;
  saved[kLse] = std::move(lse);
  return out;
}

Tensor AttentionCore::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor qkv = saved.Take(kQkv), out = saved.Take(kOut), lse = saved.Take(kLse);
  Tensor dqkv = ctx.Activation(qkv.shape(), qkv.dtype());
  ctx.Launch(ops::AttentionBackward{
      .qkv = qkv, .out = out, .lse = lse, .dout = dy, .dqkv = dqkv, .heads = heads_, .kv_heads = kv_heads_});
  return dqkv;
}

CausalSelfAttention::CausalSelfAttention(const AttentionConfig& c) {
  TWOFOLD_CHECK(c.hidden % c.heads == 0, "heads divide hidden");
  Add("qkv", std::make_unique<Linear>(LinearConfig{.in = c.hidden, .out = 3 * c.hidden, .dtype = c.dtype,
                                                   .weight_init = c.qkv_init}));
  Add("core", std::make_unique<AttentionCore>(c.heads));
  Add("projection", std::make_unique<Linear>(LinearConfig{.in = c.hidden, .out = c.hidden, .dtype = c.dtype,
                                                          .weight_init = c.projection_init}));
}

}  // namespace twofold::nn
