#include "core/nn/loss.h"

#include "core/nn/rows.h"

namespace twofold::nn {

Tensor SoftmaxCrossEntropy::Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved) {
  const int64_t rows = logits.numel() / logits.dim(-1);
  const DType wide = ops::AccumulationType(logits.dtype());
  Tensor losses = ctx.Activation(Shape{rows}, wide), loss = ctx.Activation(Shape{1}, wide);
  saved[kLogits] = logits;
  saved[kTargets] = targets;
  saved[kLse] = ctx.Activation(Shape{rows}, wide);
  ctx.Launch(ops::CrossEntropyForward{
      .logits = Rows(logits), .targets = targets.Flat(), .losses = losses, .lse = saved[kLse]});
  ctx.Launch(ops::Sum{.in = losses, .out = loss, .factor = 1.0 / static_cast<double>(rows)});
  return loss;
}

Tensor SoftmaxCrossEntropy::Losses(Context& ctx, const Tensor& logits, const Tensor& targets) {
  const Tensor rows = Rows(logits);
  const Shape shape{rows.dim(0)};
  const DType wide = ops::AccumulationType(logits.dtype());
  Tensor losses = ctx.Activation(shape, wide);
  const Tensor lse = ctx.Activation(shape, wide);
  ctx.Launch(ops::CrossEntropyForward{.logits = rows, .targets = targets.Flat(), .losses = losses, .lse = lse});
  return losses;
}

Tensor SoftmaxCrossEntropy::Backward(Context& ctx, Saved& saved, double scale) {
  Tensor logits = saved.Take(kLogits);
  const Tensor targets = saved.Take(kTargets), lse = saved.Take(kLse), rows = Rows(logits);
  ctx.Launch(ops::CrossEntropyBackward{.logits = rows,
                                       .targets = targets.Flat(),
                                       .lse = lse,
                                       .dlogits = rows,
                                       .scale = scale / static_cast<double>(rows.dim(0))});
  return logits;
}

}  // namespace twofold::nn
