#include "core/nn/batch_norm.h"

#include <utility>

namespace twofold::nn {
namespace {

DType BufferType(const BatchNormConfig& c) { return c.buffer.value_or(ops::AccumulationType(c.dtype)); }

}  // namespace

BatchNorm::BatchNorm(const BatchNormConfig& c)
    : config_(c),
      gamma_(AddParameter("weight", Shape{c.channels}, c.dtype, {Init::kConstant, 1}, Role::kNorm)),
      beta_(AddParameter("bias", Shape{c.channels}, c.dtype, {Init::kConstant, 0}, Role::kNorm)),
      running_mean_(AddBuffer("running_mean", Shape{c.channels}, BufferType(c), {Init::kConstant, 0})),
      running_variance_(AddBuffer("running_variance", Shape{c.channels}, BufferType(c), {Init::kConstant, 1})) {}

Tensor BatchNorm::Statistics(Context& ctx, const Tensor& x) const {
  if (!ctx.training) return Tensor();
  const DType wide = ops::AccumulationType(x.dtype());
  Tensor part = ctx.Activation(Shape{2, config_.channels}, wide);
  ctx.Launch(ops::BatchNormStatistics{.x = x, .statistics = part});
  if (!Synchronised(ctx)) return part;
  Tensor all = ctx.Activation(Shape{ctx.statistics->ranks(), 2, config_.channels}, wide);
  ctx.statistics->Gather(part, all);
  return all;
}

Tensor BatchNorm::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  const DType wide = ops::AccumulationType(x.dtype());
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  saved[kMean] = ctx.Activation(Shape{config_.channels}, wide);
  saved[kRstd] = ctx.Activation(Shape{config_.channels}, wide);
  ctx.Launch(ops::BatchNormFinish{.parts = Statistics(ctx, x),
                                  .running_mean = running_mean_->data(),
                                  .running_variance = running_variance_->data(),
                                  .mean = saved[kMean],
                                  .rstd = saved[kRstd],
                                  .rows = x.numel() / config_.channels,
                                  // The running statistics were updated by the first pass.
                                  .momentum = ctx.recomputing ? 0 : config_.momentum,
                                  .eps = config_.eps});
  ctx.Launch(ops::BatchNormForward{.x = x,
                                   .gamma = gamma_->data(),
                                   .beta = beta_->data(),
                                   .mean = saved[kMean],
                                   .rstd = saved[kRstd],
                                   .y = y,
                                   .relu = config_.relu});
  saved[kX] = x;
  if (config_.relu) saved[kY] = y;
  return y;
}

// The gradients of gamma and beta are this rank's own sums; they are averaged over ranks with all other gradients. The
// input's gradient needs the sums over all rows that shared the statistics.
Tensor BatchNorm::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  TWOFOLD_CHECK(ctx.training,
                "the backward pass of batch normalisation needs the statistics of a training forward pass");
  const Tensor x = saved.Take(kX), y = saved.Take(kY), mean = saved.Take(kMean), rstd = saved.Take(kRstd);
  Tensor sums = ctx.Activation(Shape{2, config_.channels}, mean.dtype());
  ctx.Launch(ops::BatchNormSums{.dy = dy, .x = x, .y = y, .mean = mean, .rstd = rstd, .sums = sums});
  saved[kSums] = sums;
  int64_t rows = x.numel() / config_.channels;
  if (Synchronised(ctx)) {
    Tensor total = ctx.Activation(sums.shape(), sums.dtype());
    ctx.Launch(ops::Cast{.in = sums, .out = total});
    ctx.statistics->Sum(total);
    sums = std::move(total);
    rows *= ctx.statistics->ranks();
  }
  Tensor dx = dy.unique() ? dy : ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::BatchNormBackward{.dy = dy,
                                    .x = x,
                                    .y = y,
                                    .gamma = gamma_->data(),
                                    .mean = mean,
                                    .rstd = rstd,
                                    .sums = sums,
                                    .dx = dx,
                                    .rows = rows});
  return dx;
}

void BatchNorm::StoreGradient(Context& ctx, Parameter& parameter, const Tensor& sum) const {
  const Parameter::Gradient g = parameter.BeginGradient();
  if (g.accumulate) {
    ctx.Launch(ops::AddTo{.in = sum, .out = g.tensor});
  } else {
    ctx.Launch(ops::Cast{.in = sum, .out = g.tensor});
  }
  parameter.EndGradient();
}

void BatchNorm::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor sums = saved.Take(kSums);
  StoreGradient(ctx, *beta_, sums.Slice(0, config_.channels));
  StoreGradient(ctx, *gamma_, sums.Slice(config_.channels, config_.channels));
}

}  // namespace twofold::nn
