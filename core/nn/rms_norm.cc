#include "core/nn/rms_norm.h"

namespace twofold::nn {

RmsNorm::RmsNorm(int64_t hidden, DType dtype, double eps)
    : eps_(eps), gamma_(AddParameter("weight", Shape{hidden}, dtype, {Init::kConstant, 1}, Role::kNorm)) {}

Tensor RmsNorm::Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) {
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  saved[kX] = sum;
  saved[kRstd] = ctx.Activation(Shape{x.numel() / x.dim(-1)}, ops::AccumulationType(x.dtype()));
  ctx.Launch(ops::RmsNormForward{.x = x,
                                 .gamma = gamma_->data(),
                                 .y = y,
                                 .rstd = saved[kRstd],
                                 .eps = eps_,
                                 .branch = branch,
                                 .sum = branch.empty() ? Tensor() : sum});
  return y;
}

Tensor RmsNorm::InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) {
  Tensor dx = ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::RmsNormBackward{
      .dy = dy, .x = saved[kX], .gamma = gamma_->data(), .rstd = saved[kRstd], .dx = dx, .past = past});
  saved[kDy] = std::move(dy);
  return dx;
}

void RmsNorm::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), rstd = saved.Take(kRstd), dy = saved.Take(kDy);
  const Parameter::Gradient dgamma = gamma_->BeginGradient();
  ctx.Launch(
      ops::RmsNormWeights{.dy = dy, .x = x, .rstd = rstd, .dgamma = dgamma.tensor, .accumulate = dgamma.accumulate});
  gamma_->EndGradient();
}

}  // namespace twofold::nn
