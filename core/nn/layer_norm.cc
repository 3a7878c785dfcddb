#include "core/nn/layer_norm.h"

namespace twofold::nn {

LayerNorm::LayerNorm(int64_t hidden, DType dtype, double eps, Gain gain)
    : gain_(gain),
      eps_(eps),
      gamma_(AddParameter("weight", Shape{hidden}, dtype, {Init::kConstant, gain == Gain::kWhole ? 1.0 : 0.0},
                          Role::kNorm)),
      beta_(AddParameter("bias", Shape{hidden}, dtype, {Init::kConstant, 0}, Role::kNorm)) {}

Tensor LayerNorm::GainData(Context& ctx) const {
  if (gain_ == Gain::kWhole) return gamma_->data();
  const Tensor stored = gamma_->data();
  Tensor gain = ctx.Activation(stored.shape(), stored.dtype());
  ctx.Launch(ops::Affine{.in = stored, .out = gain, .scale = 1, .shift = 1});
  return gain;
}

Tensor LayerNorm::Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) {
  const Shape rows{x.numel() / x.dim(-1)};
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  saved[kX] = sum;
  saved[kMean] = ctx.Activation(rows, ops::AccumulationType(x.dtype()));
  saved[kRstd] = ctx.Activation(rows, ops::AccumulationType(x.dtype()));
  ctx.Launch(ops::LayerNormForward{.x = x,
                                   .gamma = GainData(ctx),
                                   .beta = beta_->data(),
                                   .y = y,
                                   .mean = saved[kMean],
                                   .rstd = saved[kRstd],
                                   .eps = eps_,
                                   .branch = branch,
                                   .sum = branch.empty() ? Tensor() : sum});
  return y;
}

Tensor LayerNorm::InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) {
  Tensor dx = ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::LayerNormBackward{.dy = dy,
                                    .x = saved[kX],
                                    .gamma = GainData(ctx),
                                    .mean = saved[kMean],
                                    .rstd = saved[kRstd],
                                    .dx = dx,
                                    .past = past});
  saved[kDy] = std::move(dy);
  return dx;
}

void LayerNorm::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), mean = saved.Take(kMean), rstd = saved.Take(kRstd), dy = saved.Take(kDy);
  const Parameter::Gradient dgamma = gamma_->BeginGradient(), dbeta = beta_->BeginGradient();
  TWOFOLD_CHECK_EQ(dgamma.accumulate, dbeta.accumulate);
  ctx.Launch(ops::LayerNormWeights{.dy = dy,
                                   .x = x,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .dgamma = dgamma.tensor,
                                   .dbeta = dbeta.tensor,
                                   .accumulate = dgamma.accumulate});
  beta_->EndGradient();
  gamma_->EndGradient();
}

}  // namespace twofold::nn
