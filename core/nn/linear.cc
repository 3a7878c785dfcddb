#include "core/nn/linear.h"

#include "core/nn/bias.h"
#include "core/nn/rows.h"

namespace twofold::nn {

Linear::Linear(const LinearConfig& config) : in_(config.in), out_(config.out), fp8_(config.fp8) {
  weight_ = AddParameter("weight", Shape{out_, in_}, config.dtype, config.weight_init);
  if (config.bias) bias_ = AddParameter("bias", Shape{out_}, config.dtype, config.bias_init, Role::kBias);
}

Linear::Linear(const LinearConfig& config, Parameter* shared_weight)
    : in_(config.in), out_(config.out), fp8_(config.fp8), weight_(shared_weight) {
  TWOFOLD_CHECK_EQ(shared_weight->shape(), (Shape{out_, in_}));
  ShareParameter(shared_weight);
  if (config.bias) bias_ = AddParameter("bias", Shape{out_}, config.dtype, config.bias_init, Role::kBias);
}

void Linear::Multiply(Context& ctx, const Tensor& x, const Tensor& y, const Tensor* activated, Saved& saved) {
  TWOFOLD_CHECK_EQ(x.dim(-1), in_);
  const ProductOperand read = InputOperand(ctx, fp8_.recipe, x, Along::kColumns);
  const ProductOperand weight = codes_.Of(ctx, weight_->data());
  const ops::MatMul product = ForwardProduct(read, weight, activated != nullptr ? *activated : y, BiasData(bias_));
  ctx.Launch(activated != nullptr ? WithGelu(product, y) : product);
  kInput.Keep(ctx, fp8_.recipe, x, read, saved);
}

Tensor Linear::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor y = ctx.Activation(WithLast(x.shape(), out_), x.dtype());
  Multiply(ctx, x, y, nullptr, saved);
  return y;
}

Tensor Linear::ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) {
  y = ctx.Activation(WithLast(x.shape(), out_), x.dtype());
  Tensor activated = ctx.Activation(y.shape(), y.dtype());
  Multiply(ctx, x, y, &activated, saved);
  return activated;
}

Tensor Linear::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  return InputGradient(ctx, std::move(dy), nullptr, saved);
}

Tensor Linear::BackwardInputGelu(Context& ctx, Tensor dy, const Tensor& x, Saved& saved) {
  return InputGradient(ctx, std::move(dy), &x, saved);
}

Tensor Linear::InputGradient(Context& ctx, Tensor dy, const Tensor* before_gelu, Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), in_), dy.dtype());
  const ProductOperand read = GradientOperand(ctx, fp8_.recipe, dy, Along::kColumns);
  const ops::MatMul product = InputGradientProduct(read, codes_.Of(ctx, weight_->data()), dx);
  ctx.Launch(before_gelu != nullptr ? WithGeluSlope(product, *before_gelu) : product);
  kGradient.Keep(fp8_.recipe, std::move(dy), read, bias_ != nullptr, saved);
  return dx;
}

void Linear::BackwardWeights(Context& ctx, Saved& saved) {
  const ProductOperand x = kInput.Take(fp8_.recipe, saved);
  const Tensor dy = saved.Take(kDy);
  BiasGradient(ctx, dy, bias_);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(WeightGradientProduct(kGradient.Take(ctx, fp8_.recipe, dy, saved), x, dw));
  weight_->EndGradient();
}

}  // namespace twofold::nn
