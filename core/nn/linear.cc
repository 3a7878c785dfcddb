#include "core/nn/linear.h"

#include "core/nn/bias.h"
#include "core/nn/rows.h"

namespace twofold::nn {

Linear::Linear(const LinearConfig& config) : in_(config.in), out_(config.out) {
  weight_ = AddParameter("weight", Shape{out_, in_}, config.dtype, config.weight_init);
  if (config.bias) bias_ = AddParameter("bias", Shape{out_}, config.dtype, config.bias_init, Role::kBias);
}

Linear::Linear(const LinearConfig& config, Parameter* shared_weight)
    : in_(config.in), out_(config.out), weight_(shared_weight) {
  TWOFOLD_CHECK_EQ(shared_weight->shape(), (Shape{out_, in_}));
  ShareParameter(shared_weight);
  if (config.bias) bias_ = AddParameter("bias", Shape{out_}, config.dtype, config.bias_init, Role::kBias);
}

ops::MatMul Linear::Product(const Tensor& x, const Tensor& y) const {
  TWOFOLD_CHECK_EQ(x.dim(-1), in_);
  return {.a = Rows(x), .b = weight_->data(), .out = Rows(y), .bias = BiasData(bias_), .transpose_b = true};
}

ops::MatMul Linear::InputGradient(const Tensor& dy, const Tensor& dx) const {
  return {.a = Rows(dy), .b = weight_->data(), .out = Rows(dx)};
}

Tensor Linear::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor y = ctx.Activation(WithLast(x.shape(), out_), x.dtype());
  ctx.Launch(Product(x, y));
  saved[kX] = x;
  return y;
}

Tensor Linear::ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) {
  y = ctx.Activation(WithLast(x.shape(), out_), x.dtype());
  Tensor activated = ctx.Activation(y.shape(), y.dtype());
  ctx.Launch(WithGelu(Product(x, activated), y));
  saved[kX] = x;
  return activated;
}

Tensor Linear::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), in_), dy.dtype());
  ctx.Launch(InputGradient(dy, dx));
  saved[kDy] = std::move(dy);
  return dx;
}

Tensor Linear::BackwardInputGelu(Context& ctx, Tensor dy, const Tensor& x, Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), in_), dy.dtype());
  ctx.Launch(WithGeluSlope(InputGradient(dy, dx), x));
  saved[kDy] = std::move(dy);
  return dx;
}

void Linear::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), dy = saved.Take(kDy);
  BiasGradient(ctx, dy, bias_);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(
      ops::MatMul{.a = Rows(dy), .b = Rows(x), .out = dw.tensor, .transpose_a = true, .accumulate = dw.accumulate});
  weight_->EndGradient();
}

}  // namespace twofold::nn
