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
    : exchange_(exchange), fp8_(config.fp8) {
  int64_t rows = 0;
  for (const nn::ShardLayout::Range& range : ranges) rows += range.count;
  weight_ = AddParameter("weight", Shape{rows, config.in}, config.dtype, config.weight_init);
  weight_->set_shard_layout(nn::ShardLayout::Rows(Shape{config.out, config.in}, ranges));
  if (!config.bias) return;
  bias_ = AddParameter("bias", Shape{rows}, config.dtype, config.bias_init, nn::Role::kBias);
  bias_->set_shard_layout(nn::ShardLayout::Rows(Shape{config.out}, ranges));
}

ColumnParallelLinear::ColumnParallelLinear(const TensorParallelExchange& exchange, nn::Parameter* shared_weight)
    : exchange_(exchange), fp8_(), weight_(shared_weight) {
  ShareParameter(shared_weight);
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

template <class MakeResults>
void ColumnParallelLinear::MultiplyAndKeep(nn::Context& ctx, const Tensor& x, MakeResults make, const Tensor& y,
                                           const Tensor* activated, nn::Saved& saved) {
  const nn::ProductOperand weight = codes_.Of(ctx, weight_->data());
  nn::ProductOperand own{x};
  if (keeps_own_codes())
    own = RoundOwnRows(ctx, exchange_, x, ops::Fp8Format::kE4M3, ctx.Activation(x.shape(), DType::kU8));
  GatherAndMultiply(ctx, own.matrix, make, [&](const Tensor& rows, auto of) {
    const nn::ProductOperand read = keeps_own_codes() ? nn::ProductOperand{Rows(rows), own.scaling}
                                                      : nn::InputOperand(ctx, fp8_.recipe, rows, nn::Along::kColumns);
    const Tensor out = of(activated != nullptr ? *activated : y);
    ops::MatMul product = nn::ForwardProduct(read, weight, out, nn::BiasData(bias_));
    product.parts = exchange_.parts();
    ctx.Launch(activated != nullptr ? nn::WithGelu(product, of(y)) : product);
    if (!keeps_own_codes() && !keeps_rows()) kInput.Keep(ctx, fp8_.recipe, x, read, saved);
  });
  if (keeps_rows()) saved[kX] = x;
  if (keeps_own_codes() && ctx.for_backward) saved[kX] = own.matrix, saved[kScales] = own.scaling.scales;
}

Tensor ColumnParallelLinear::Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) {
  Tensor y;
  const auto make = [&](const Shape& all) { y = ctx.Activation(WithLast(all, weight_->shape()[0]), x.dtype()); };
  MultiplyAndKeep(ctx, x, make, y, nullptr, saved);
  return y;
}

Tensor ColumnParallelLinear::ForwardGelu(nn::Context& ctx, const Tensor& x, Tensor& y, nn::Saved& saved) {
  Tensor activated;
  const auto make = [&](const Shape& all) {
    y = ctx.Activation(WithLast(all, weight_->shape()[0]), x.dtype());
    activated = ctx.Activation(y.shape(), y.dtype());
  };
  MultiplyAndKeep(ctx, x, make, y, &activated, saved);
  return activated;
}

// Computes the weight's gradient while the input's gradient is summed over the ranks.
Tensor ColumnParallelLinear::Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  PendingTensor x = exchange_.Enter(ctx, saved.Take(kX));
  PendingTensor dx = exchange_.Leave(ctx, InputGradient(ctx, std::move(dy), saved));
  WeightGradients(ctx, InputForWeights(ctx, std::move(x), saved), saved);
  return dx.Wait(ctx);
}

Tensor ColumnParallelLinear::BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  return exchange_.Leave(ctx, InputGradient(ctx, std::move(dy), saved)).Wait(ctx);
}

void ColumnParallelLinear::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  WeightGradients(ctx, InputForWeights(ctx, exchange_.Enter(ctx, saved.Take(kX)), saved), saved);
}

// `x`: what was kept, gathered again if it is this rank's rows or their codes; codes of all rows pass through Enter as
// they are.
nn::ProductOperand ColumnParallelLinear::InputForWeights(nn::Context& ctx, PendingTensor x, nn::Saved& saved) const {
  saved[kX] = Rows(x.Wait(ctx));
  if (!keeps_rows()) return kInput.Take(fp8_.recipe, saved);
  return nn::InputOperand(ctx, fp8_.recipe, saved.Take(kX), nn::Along::kRows);
}

Tensor ColumnParallelLinear::InputGradient(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), weight_->shape()[1]), dy.dtype());
  const nn::ProductOperand read = nn::GradientOperand(ctx, fp8_.recipe, dy, nn::Along::kColumns);
  ctx.Launch(nn::InputGradientProduct(read, codes_.Of(ctx, weight_->data()), dx));
  kGradient.Keep(fp8_.recipe, std::move(dy), read, bias_ != nullptr, saved);
  return dx;
}

void ColumnParallelLinear::WeightGradients(nn::Context& ctx, const nn::ProductOperand& x, nn::Saved& saved) {
  const Tensor dy = saved.Take(kDy);
  nn::BiasGradient(ctx, dy, bias_);
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(nn::WeightGradientProduct(kGradient.Take(ctx, fp8_.recipe, dy, saved), x, dw));
  weight_->EndGradient();
}

}  // namespace twofold
