#include "strategies/tensor_parallel/column_linear.h"

#include "core/nn/bias.h"
#include "strategies/tensor_parallel/ring_product.h"

namespace twofold {

using nn::Rows;
using nn::WithLast;

std::vector<nn::ShardLayout::Range> SplitParts(std::span<const int64_t> parts, int rank, int ranks) {
  std::vector<nn::ShardLayout::Range> ranges;
  int64_t first = 0;
  for (const int64_t part : parts) {
    TWOFOLD_CHECK(part % ranks == 0, "tensor-parallel ranks share each part of a layer's outputs evenly");
    ranges.push_back({.first = first + rank * (part / ranks), .count = part / ranks});
    first += part;
  }
  return ranges;
}

ColumnParallelLinear::ColumnParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config,
                                           const std::vector<nn::ShardLayout::Range>& ranges)
    : exchange_(exchange) {
  int64_t rows = 0;
  for (const nn::ShardLayout::Range& range : ranges) rows += range.count;
  weight_ = AddParameter("weight", Shape{rows, config.in}, config.dtype, config.weight_init);
  weight_->set_shard_layout(nn::ShardLayout::Rows(Shape{config.out, config.in}, ranges));
  if (!config.bias) return;
  bias_ = AddParameter("bias", Shape{rows}, config.dtype, config.bias_init, nn::Role::kBias);
  bias_->set_shard_layout(nn::ShardLayout::Rows(Shape{config.out}, ranges));
}

ColumnParallelLinear::ColumnParallelLinear(const TensorParallelExchange& exchange, nn::Parameter* shared_weight)
    : exchange_(exchange), weight_(shared_weight) {
  ShareParameter(shared_weight);
}

ops::MatMul ColumnParallelLinear::Product(const Tensor& x, const Tensor& y) const {
  return {.a = Rows(x), .b = weight_->data(), .out = Rows(y), .bias = nn::BiasData(bias_), .transpose_b = true};
}

// Gathers the input and multiplies it, as a whole or part by part.
template <class MakeResults, class Multiply>
void ColumnParallelLinear::GatherAndMultiply(nn::Context& ctx, const Tensor& x, MakeResults make, Multiply multiply) {
  if (!exchange_.rings()) {
    const Tensor all = exchange_.Enter(ctx, x).Wait(ctx);
    make(all.shape());
    return multiply(all, [](const Tensor& result) { return result; });
  }
  make(exchange_.WholeOf(x.shape()));
  GatherInRing(ctx, exchange_, x, nullptr, [&](const Tensor& rows, int rank) {
    multiply(rows, [&](const Tensor& result) { return exchange_.RowsOf(result, rank); });
  });
}

Tensor ColumnParallelLinear::Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) {
  Tensor y;
  GatherAndMultiply(
      ctx, x, [&](const Shape& all) { y = ctx.Activation(WithLast(all, weight_->shape()[0]), x.dtype()); },
      [&](const Tensor& rows, auto of) { ctx.Launch(Product(rows, of(y))); });
  saved[kX] = x;
  return y;
}

Tensor ColumnParallelLinear::ForwardGelu(nn::Context& ctx, const Tensor& x, Tensor& y, nn::Saved& saved) {
  Tensor activated;
  GatherAndMultiply(
      ctx, x,
      [&](const Shape& all) {
        y = ctx.Activation(WithLast(all, weight_->shape()[0]), x.dtype());
        activated = ctx.Activation(y.shape(), y.dtype());
      },
      [&](const Tensor& rows, auto of) { ctx.Launch(nn::WithGelu(Product(rows, of(activated)), of(y))); });
  saved[kX] = x;
  return activated;
}

// Computes the weight's gradient while the input's gradient is summed over the ranks.
Tensor ColumnParallelLinear::Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  PendingTensor x = exchange_.Enter(ctx, saved.Take(kX));
  PendingTensor dx = exchange_.Leave(ctx, InputGradient(ctx, dy));
  WeightGradients(ctx, x.Wait(ctx), dy);
  dy = Tensor();
  return dx.Wait(ctx);
}

Tensor ColumnParallelLinear::BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  PendingTensor dx = exchange_.Leave(ctx, InputGradient(ctx, dy));
  saved[kDy] = std::move(dy);
  return dx.Wait(ctx);
}

void ColumnParallelLinear::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  const Tensor x = exchange_.Enter(ctx, saved.Take(kX)).Wait(ctx), dy = saved.Take(kDy);
  WeightGradients(ctx, x, dy);
}

Tensor ColumnParallelLinear::InputGradient(nn::Context& ctx, const Tensor& dy) const {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), weight_->shape()[1]), dy.dtype());
  ctx.Launch(ops::MatMul{.a = Rows(dy), .b = weight_->data(), .out = Rows(dx)});
  return dx;
}

void ColumnParallelLinear::WeightGradients(nn::Context& ctx, const Tensor& x, const Tensor& dy) {
  nn::BiasGradient(ctx, dy, bias_);
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(
      ops::MatMul{.a = Rows(dy), .b = Rows(x), .out = dw.tensor, .transpose_a = true, .accumulate = dw.accumulate});
  weight_->EndGradient();
}

}  // namespace twofold
