#include "strategies/tensor_parallel/cross_entropy.h"

#include "core/nn/rows.h"

namespace twofold {

using nn::Rows;

// Reduces over the ranks, for each row: its largest logit, and relative to it the sums of ops::SplitSums.
VocabParallelCrossEntropy::OfRows VocabParallelCrossEntropy::Reduce(nn::Context& ctx, const Tensor& logits,
                                                                    const Tensor& targets, int64_t sums_a_row) const {
  const Tensor rows = Rows(logits);
  const int64_t count = rows.dim(0);
  const DType wide = ops::AccumulationType(logits.dtype());
  OfRows all{.largest = ctx.Activation(Shape{count}, wide), .sums = ctx.Activation(Shape{sums_a_row, count}, wide)};
  ctx.Launch(ops::SplitMax{.logits = rows, .largest = all.largest, .classes = share_.classes});
  group_.AllReduce(all.largest, ReduceOp::kMax).WaitOn(ctx.stream);
  ctx.Launch(ops::SplitSums{.logits = rows,
                            .targets = targets.Flat(),
                            .largest = all.largest,
                            .sums = all.sums,
                            .first = share_.first,
                            .classes = share_.classes});
  group_.AllReduce(all.sums).WaitOn(ctx.stream);
  return all;
}

Tensor VocabParallelCrossEntropy::Forward(nn::Context& ctx, const Tensor& logits, const Tensor& targets,
                                          nn::Saved& saved) {
  const OfRows all = Reduce(ctx, logits, targets, 2);
  const Shape rows = all.largest.shape();
  const DType wide = all.largest.dtype();
  Tensor losses = ctx.Activation(rows, wide), loss = ctx.Activation(Shape{1}, wide);
  saved[kLogits] = logits;
  saved[kTargets] = targets;
  saved[kLse] = ctx.Activation(rows, wide);
  ctx.Launch(ops::SplitLosses{.largest = all.largest, .sums = all.sums, .losses = losses, .lse = saved[kLse]});
  ctx.Launch(ops::Sum{.in = losses, .out = loss, .factor = 1.0 / static_cast<double>(rows.numel())});
  return loss;
}

Tensor VocabParallelCrossEntropy::Backward(nn::Context& ctx, nn::Saved& saved, double scale) {
  Tensor logits = saved.Take(kLogits);
  const Tensor targets = saved.Take(kTargets), lse = saved.Take(kLse), rows = Rows(logits);
  ctx.Launch(ops::SplitBackward{.logits = rows,
                                .targets = targets.Flat(),
                                .lse = lse,
                                .dlogits = rows,
                                .first = share_.first,
                                .classes = share_.classes,
                                .scale = scale / static_cast<double>(rows.dim(0))});
  return logits;
}

Tensor VocabParallelCrossEntropy::Losses(nn::Context& ctx, const Tensor& logits, const Tensor& targets) {
  const OfRows all = Reduce(ctx, logits, targets, 2);
  Tensor losses = ctx.Activation(all.largest.shape(), all.largest.dtype());
  const Tensor lse = ctx.Activation(all.largest.shape(), all.largest.dtype());
  ctx.Launch(ops::SplitLosses{.largest = all.largest, .sums = all.sums, .losses = losses, .lse = lse});
  return losses;
}

void VocabParallelCrossEntropy::CountCorrect(nn::Context& ctx, const Tensor& logits, const Tensor& targets,
                                             const Tensor& total) {
  const OfRows all = Reduce(ctx, logits, targets, 3);
  ctx.Launch(ops::SplitCorrect{.sums = all.sums, .out = total, .accumulate = true});
}

}  // namespace twofold
