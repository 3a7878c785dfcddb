#include "strategies/tensor_parallel/row_linear.h"

#include "core/nn/bias.h"
#include "strategies/tensor_parallel/shared_parameters.h"

namespace twofold {

using nn::Rows;
using nn::WithLast;

RowParallelLinear::RowParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config)
    : exchange_(exchange) {
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
  Tensor partial = ctx.Activation(WithLast(x.shape(), weight_->shape()[0]), x.dtype());
  ctx.Launch(ops::MatMul{.a = Rows(x), .b = weight_->data(), .out = Rows(partial), .transpose_b = true});
  saved[kX] = x;
  Tensor y = exchange_.Leave(ctx, std::move(partial)).Wait(ctx);
  if (bias_ != nullptr) ctx.Launch(ops::AddBias{.x = y, .bias = bias_->data(), .out = y});
  return y;
}

Tensor RowParallelLinear::BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  return InputGradient(ctx, std::move(dy), nullptr, saved);
}

Tensor RowParallelLinear::BackwardInputGelu(nn::Context& ctx, Tensor dy, const Tensor& x, nn::Saved& saved) {
  return InputGradient(ctx, std::move(dy), &x, saved);
}

Tensor RowParallelLinear::InputGradient(nn::Context& ctx, Tensor dy, const Tensor* before_gelu, nn::Saved& saved) {
  dy = exchange_.Enter(ctx, std::exchange(dy, Tensor())).Wait(ctx);
  Tensor dx = ctx.Activation(WithLast(dy.shape(), weight_->shape()[1]), dy.dtype());
  const ops::MatMul product{.a = Rows(dy), .b = weight_->data(), .out = Rows(dx)};
  ctx.Launch(before_gelu == nullptr ? product : nn::WithGeluSlope(product, *before_gelu));
  saved[kDy] = std::move(dy);
  return dx;
}

void RowParallelLinear::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  const Tensor x = saved.Take(kX), dy = saved.Take(kDy);
  nn::BiasGradient(ctx, exchange_.OwnRows(dy), bias_);
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(
      ops::MatMul{.a = Rows(dy), .b = Rows(x), .out = dw.tensor, .transpose_a = true, .accumulate = dw.accumulate});
  weight_->EndGradient();
}

}  // namespace twofold
