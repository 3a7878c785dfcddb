#include "core/nn/attention.h"

#include <cmath>

#include "core/nn/rows.h"

namespace twofold::nn {

Tensor AttentionCore::Forward(Context& ctx, const Tensor& qkv, Saved& saved) {
  const int64_t head_dim = qkv.dim(-1) / (heads_ + 2 * kv_heads_);
  Tensor out = ctx.Activation(WithLast(qkv.shape(), heads_ * head_dim), qkv.dtype());
  Tensor lse = ctx.Activation(Shape{qkv.dim(0), heads_, qkv.dim(1)}, ops::AccumulationType(qkv.dtype()));
  ctx.Launch(ops::AttentionForward{.qkv = qkv, .out = out, .lse = lse, .heads = heads_, .kv_heads = kv_heads_});
  saved[kQkv] = qkv;
  saved[kOut] = out;
  saved[kLse] = std::move(lse);
  return out;
}

Tensor AttentionCore::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor qkv = saved.Take(kQkv), out = saved.Take(kOut), lse = saved.Take(kLse);
  Tensor dqkv = ctx.Activation(qkv.shape(), qkv.dtype());
  ctx.Launch(ops::AttentionBackward{.qkv = qkv,
                                    .out = out,
                                    .lse = lse,
                                    .dout = dy,
                                    .dqkv = dqkv,
                                    .heads = heads_,
                                    .kv_heads = kv_heads_,
                                    .score_limit = score_limit_});
  return dqkv;
}

namespace {

// Where the matrices of b batches and h heads are: the heads of queries, keys and values in qkv, the heads of the
// output, and the square matrices of scores.
struct Layout {
  int64_t batch, t, heads, kv_heads, head_dim;
  Layout(const Tensor& qkv, int64_t heads, int64_t kv_heads)
      : batch(qkv.dim(0)),
        t(qkv.dim(1)),
        heads(heads),
        kv_heads(kv_heads),
        head_dim(qkv.dim(2) / (heads + 2 * kv_heads)) {}

  ops::Matrices Columns(const Tensor& x, int64_t first_head, int64_t group) const {
    const int64_t row = x.dim(2);
    return {
        .tensor = x, .stride = row, .batch = t * row, .head = head_dim, .first = first_head * head_dim, .group = group};
  }
  ops::Matrices Queries(const Tensor& qkv) const { return Columns(qkv, 0, 1); }
  ops::Matrices Keys(const Tensor& qkv) const { return Columns(qkv, heads, heads / kv_heads); }
  ops::Matrices Values(const Tensor& qkv) const { return Columns(qkv, heads + kv_heads, heads / kv_heads); }
  ops::Matrices Output(const Tensor& out) const { return Columns(out, 0, 1); }
  ops::Matrices Scores(const Tensor& scores) const {
    return {.tensor = scores, .stride = t, .batch = heads * t * t, .head = t * t};
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(head_dim)); }

  // [t, t] = alpha * a * b^T
  ops::BatchedMatMul Outer(ops::Matrices a, ops::Matrices b, ops::Matrices out, double alpha) const {
    return {.a = std::move(a),
            .b = std::move(b),
            .out = std::move(out),
            .batches = batch,
            .heads = heads,
            .m = t,
            .n = t,
            .k = head_dim,
            .transpose_b = true,
            .alpha = alpha};
  }
  // [t, head_dim] = alpha * op(scores) * b
  ops::BatchedMatMul Mix(ops::Matrices scores, bool transpose, ops::Matrices b, ops::Matrices out, double alpha) const {
    return {.a = std::move(scores),
            .b = std::move(b),
            .out = std::move(out),
            .batches = batch,
            .heads = heads,
            .m = t,
            .n = head_dim,
            .k = t,
            .transpose_a = transpose,
            .alpha = alpha};
  }
};

}  // namespace

UnfusedAttentionCore::UnfusedAttentionCore(int64_t heads, int64_t kv_heads, double dropout, DropoutMasks masks,
                                           Placing places)
    : heads_(heads), kv_heads_(kv_heads) {
  AddChild("dropout", std::make_unique<Dropout>(dropout, masks, "", std::move(places)));
}

Tensor UnfusedAttentionCore::Forward(Context& ctx, const Tensor& qkv, Saved& saved) {
  const Layout l(qkv, heads_, kv_heads_);
  const Tensor p = ctx.Activation(Shape{l.batch, heads_, l.t, l.t}, qkv.dtype());
  ctx.Launch(l.Outer(l.Queries(qkv), l.Keys(qkv), l.Scores(p), l.scale()));
  ctx.Launch(ops::SoftmaxForward{.x = p, .y = p});
  const Tensor dropped = dropout()->Forward(ctx, p, saved.child(0));
  Tensor out = ctx.Activation(WithLast(qkv.shape(), heads_ * l.head_dim), qkv.dtype());
  ctx.Launch(l.Mix(l.Scores(dropped), false, l.Values(qkv), l.Output(out), 1));
  saved[kQkv] = qkv;
  saved[kProbabilities] = p;
  saved[kDropped] = dropped;
  return out;
}

Tensor UnfusedAttentionCore::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor qkv = saved.Take(kQkv), p = saved.Take(kProbabilities);
  Tensor dropped = saved.Take(kDropped);
  const Layout l(qkv, heads_, kv_heads_);
  Tensor dqkv = ctx.Activation(qkv.shape(), qkv.dtype());
  Tensor dp = ctx.Activation(p.shape(), p.dtype());
  ctx.Launch(l.Mix(l.Scores(dropped), true, l.Output(dy), l.Values(dqkv), 1));
  dropped = Tensor();
  ctx.Launch(l.Outer(l.Output(dy), l.Values(qkv), l.Scores(dp), 1));
  dp = dropout()->BackwardInput(ctx, std::move(dp), saved.child(0));
  ctx.Launch(ops::SoftmaxBackward{.y = p, .dy = dp, .dx = dp});
  ctx.Launch(l.Mix(l.Scores(dp), false, l.Keys(qkv), l.Queries(dqkv), l.scale()));
  ctx.Launch(l.Mix(l.Scores(dp), true, l.Queries(qkv), l.Keys(dqkv), l.scale()));
  return dqkv;
}

CausalSelfAttention::CausalSelfAttention(const AttentionConfig& c, Layers& layers) {
  const int64_t kv_heads = c.kv_heads > 0 ? c.kv_heads : c.heads;
  TWOFOLD_CHECK(c.heads % kv_heads == 0, "kv_heads must divide heads");
  TWOFOLD_CHECK(c.head_dim > 0 || c.hidden % c.heads == 0, "heads must divide hidden");
  TWOFOLD_CHECK(c.unfused || c.dropout == 0,
                "dropout needs unfused attention: tiled attention stores no probabilities");
  const Heads heads{.queries = c.heads, .keys = kv_heads, .width = c.head_dim > 0 ? c.head_dim : c.hidden / c.heads};
  Add("qkv", layers.Qkv({.in = c.hidden,
                         .out = heads.all() * heads.width,
                         .bias = c.qkv_bias,
                         .dtype = c.dtype,
                         .weight_init = c.qkv_init},
                        heads));
  if (c.rotary != nullptr) Add("rotary", layers.MakeRotary(c.rotary, heads));
  Add("core", c.unfused ? layers.UnfusedAttentionCore(heads, c.dropout, c.masks) : layers.AttentionCore(heads));
  Add("projection", layers.Row({.in = heads.queries * heads.width,
                                .out = c.hidden,
                                .bias = c.projection_bias,
                                .dtype = c.dtype,
                                .weight_init = c.projection_init}));
}

}  // namespace twofold::nn
