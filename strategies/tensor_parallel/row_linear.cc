#include "strategies/tensor_parallel/row_linear.h"

#include "core/nn/bias.h"
#include "strategies/tensor_parallel/ring_product.h"
#include "strategies/tensor_parallel/shared_parameters.h"

namespace twofold {

using nn::Rows;
using nn::WithLast;

RowParallelLinear::RowParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config)
    : exchange_(exchange), fp8_(config.fp8) {
  const ProcessGroup& group = exchange.group();
  TWOFOLD_CHECK(config.in % group.size() == 0, "tensor-parallel ranks share a layer's inputs evenly");
  const int64_t columns = config.in / group.size();
  weight_ = AddParameter("weight", Shape{config.out, columns}, config.dtype, config.weight_init);
  weight_->set_shard_layout(nn::ShardLayout::Along(Shape{config.out, config.in}, 1, group.rank() * columns, columns));
  if (!config.bias) return;
  bias_ = AddParameter("bias", Shape{config.out}, config.dtype, config.bias_init, nn::Role::kBias);
  ShareAmong(exchange, *bias_);
}

Tensor RowParallelLinear::Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) {
  Tensor y = MultiplyAndSum(ctx, x, saved);
  if (bias_ != nullptr) ctx.Launch(ops::AddBias{.x = y, .bias = bias_->data(), .out = y});
  return y;
}

Tensor RowParallelLinear::MultiplyAndSum(nn::Context& ctx, const Tensor& x, nn::Saved& saved) {
  const nn::ProductOperand weight = codes_.Of(ctx, weight_->data());
  const auto multiply = [&](const Tensor& rows, const Tensor& out) {
    const nn::ProductOperand read = nn::InputOperand(ctx, fp8_.recipe, rows, nn::Along::kColumns);
    ctx.Launch(nn::ForwardProduct(read, weight, out, Tensor()));
    return read;
  };
  const Shape whole = WithLast(x.shape(), weight_->shape()[0]);
  if (exchange_.rings()) {
    kInput.Keep(ctx, fp8_.recipe, x, saved);
    return ScatterInRing(ctx, exchange_, exchange_.PartOf(whole), x.dtype(),
                         [&](int rank, const Tensor& out) { multiply(exchange_.RowsOf(x, rank), out); });
  }
  Tensor partial = ctx.Activation(whole, x.dtype());
  kInput.Keep(ctx, fp8_.recipe, x, multiply(x, partial), saved);
  return exchange_.Leave(ctx, std::move(partial)).Wait(ctx);
}

Tensor RowParallelLinear::BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  return InputGradient(ctx, std::move(dy), nullptr, saved);
}

Tensor RowParallelLinear::BackwardInputGelu(nn::Context& ctx, Tensor dy, const Tensor& x, nn::Saved& saved) {
  return InputGradient(ctx, std::move(dy), &x, saved);
}

Tensor RowParallelLinear::InputGradient(nn::Context& ctx, Tensor dy, const Tensor* before_gelu, nn::Saved& saved) {
  Tensor dx;
  const nn::ProductOperand weight = codes_.Of(ctx, weight_->data());
  const auto multiply = [&](const Tensor& rows, auto of) {
    const nn::ProductOperand read = nn::GradientOperand(ctx, fp8_.recipe, rows, nn::Along::kColumns);
    const ops::MatMul product = nn::InputGradientProduct(read, weight, of(dx));
    ctx.Launch(before_gelu == nullptr ? product : nn::WithGeluSlope(product, of(*before_gelu)));
    return read;
  };
  if (exchange_.rings()) {
    const Tensor all = ctx.Activation(exchange_.WholeOf(dy.shape()), dy.dtype());
    dx = ctx.Activation(WithLast(all.shape(), weight_->shape()[1]), dy.dtype());
    GatherInRing(ctx, exchange_, dy, &all, [&](const Tensor& rows, int rank) {
      multiply(rows, [&](const Tensor& t) { return exchange_.RowsOf(t, rank); });
    });
    saved[kDy] = all;  // each part has been rounded with a scale of its own
  } else {
    dy = exchange_.Enter(ctx, std::exchange(dy, Tensor())).Wait(ctx);
    dx = ctx.Activation(WithLast(dy.shape(), weight_->shape()[1]), dy.dtype());
    const nn::ProductOperand read = multiply(dy, [](const Tensor& t) { return t; });
    kGradient.Keep(fp8_.recipe, std::move(dy), read, bias_ != nullptr, saved);
  }
  return dx;
}

void RowParallelLinear::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  const nn::ProductOperand x = kInput.Take(fp8_.recipe, saved);
  const Tensor dy = saved.Take(kDy);
  if (bias_ != nullptr) nn::BiasGradient(ctx, exchange_.OwnRows(dy), bias_);  // without, dy may not be kept
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(nn::WeightGradientProduct(kGradient.Take(ctx, fp8_.recipe, dy, saved), x, dw));
  weight_->EndGradient();
}

}  // namespace twofold
