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
    ops::MatMul product = nn::ForwardProduct(read, weight, out, Tensor());
    product.parts = exchange_.parts();
    ctx.Launch(product);
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
  const auto make = [&](const Shape& all, DType dtype) {
    dx = ctx.Activation(WithLast(all, weight_->shape()[1]), dtype);
  };
  const auto multiply = [&](const nn::ProductOperand& read, auto of) {
    ops::MatMul product = nn::InputGradientProduct(read, weight, of(dx));
    product.parts = exchange_.parts();
    ctx.Launch(before_gelu == nullptr ? product : nn::WithGeluSlope(product, of(*before_gelu)));
  };
  if (GathersCodes(exchange_, fp8_.recipe)) {
    GatherCodesAndMultiply(ctx, std::move(dy), make, multiply, saved);
    return dx;
  }
  const auto rounded = [&](const Tensor& rows) {
    return nn::GradientOperand(ctx, fp8_.recipe, rows, nn::Along::kColumns);
  };
  if (exchange_.rings()) {
    const Tensor all = ctx.Activation(exchange_.WholeOf(dy.shape()), dy.dtype());
    make(all.shape(), dy.dtype());
    ctx.Launch(ops::CopyColumns{.in = dy, .out = exchange_.OwnRows(all), .columns = dy.dim(-1)});
    GatherInRing(ctx, exchange_, dy, &all, [&](const Tensor& rows, int rank) {
      multiply(rounded(rows), [&](const Tensor& t) { return exchange_.RowsOf(t, rank); });
    });
    saved[kDy] = all;
  } else {
    dy = exchange_.Enter(ctx, std::exchange(dy, Tensor())).Wait(ctx);
    make(dy.shape(), dy.dtype());
    const nn::ProductOperand read = rounded(dy);
    multiply(read, [](const Tensor& t) { return t; });
    kGradient.Keep(fp8_.recipe, std::move(dy), read, bias_ != nullptr, saved);
  }
  return dx;
}

// The same with codes that are gathered. A bias needs this rank's rows themselves.
template <class MakeResult, class Multiply>
void RowParallelLinear::GatherCodesAndMultiply(nn::Context& ctx, Tensor dy, MakeResult make, Multiply multiply,
                                               nn::Saved& saved) {
  Tensor all;
  if (exchange_.rings()) all = ctx.Activation(exchange_.WholeOf(dy.shape()), DType::kU8);
  const Tensor codes = exchange_.rings() ? exchange_.OwnRows(all) : ctx.Activation(dy.shape(), DType::kU8);
  nn::ProductOperand read = RoundOwnRows(ctx, exchange_, dy, ops::Fp8Format::kE5M2, codes);
  const DType dtype = dy.dtype();
  if (bias_ == nullptr) dy = Tensor();
  if (exchange_.rings()) {
    make(all.shape(), dtype);
    GatherInRing(ctx, exchange_, codes, &all, [&](const Tensor& rows, int rank) {
      multiply({Rows(rows), read.scaling}, [&](const Tensor& t) { return exchange_.RowsOf(t, rank); });
    });
    read.matrix = Rows(all);
  } else {
    all = exchange_.Enter(ctx, codes).Wait(ctx);
    make(all.shape(), dtype);
    read.matrix = Rows(all);
    multiply(read, [](const Tensor& t) { return t; });
  }
  kGradient.Keep(fp8_.recipe, std::move(dy), read, bias_ != nullptr, saved);
}

void RowParallelLinear::BackwardWeights(nn::Context& ctx, nn::Saved& saved) {
  const nn::ProductOperand x = kInput.Take(fp8_.recipe, saved);
  const Tensor dy = saved.Take(kDy);
  // Without a bias, dy may not be kept; where codes are gathered, these are this rank's rows.
  if (bias_ != nullptr) nn::BiasGradient(ctx, GathersCodes(exchange_, fp8_.recipe) ? dy : exchange_.OwnRows(dy), bias_);
  const nn::Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(nn::WeightGradientProduct(kGradient.Take(ctx, fp8_.recipe, dy, saved), x, dw));
  weight_->EndGradient();
}

}  // namespace twofold
