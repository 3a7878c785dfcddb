#include "core/nn/convolution.h"

#include "core/nn/bias.h"

namespace twofold::nn {

Convolution::Convolution(const ConvolutionConfig& c)
    : config_(c), weight_(AddParameter("weight", Shape{c.kernel, c.kernel, c.in, c.out}, c.dtype, c.weight_init)) {
  if (c.bias) bias_ = AddParameter("bias", Shape{c.out}, c.dtype, c.bias_init, Role::kBias);
}

Tensor Convolution::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  TWOFOLD_CHECK_EQ(x.shape().rank(), 4);
  const auto size = [this](int64_t n) { return (n + 2 * config_.padding - config_.kernel) / config_.stride + 1; };
  Tensor y = ctx.Activation(Shape{x.dim(0), size(x.dim(1)), size(x.dim(2)), config_.out}, x.dtype());
  ctx.Launch(ops::ConvolutionForward{.x = x,
                                     .w = weight_->data(),
                                     .bias = BiasData(bias_),
                                     .y = y,
                                     .stride = config_.stride,
                                     .padding = config_.padding});
  saved[kX] = x;
  return y;
}

Tensor Convolution::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dx;
  if (config_.input_gradient) {
    dx = ctx.Activation(saved[kX].shape(), dy.dtype());
    ctx.Launch(ops::ConvolutionBackward{
        .dy = dy, .w = weight_->data(), .dx = dx, .stride = config_.stride, .padding = config_.padding});
  }
  saved[kDy] = std::move(dy);
  return dx;
}

void Convolution::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), dy = saved.Take(kDy);
  BiasGradient(ctx, dy, bias_);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(ops::ConvolutionWeights{.dy = dy,
                                     .x = x,
                                     .dw = dw.tensor,
                                     .stride = config_.stride,
                                     .padding = config_.padding,
                                     .accumulate = dw.accumulate});
  weight_->EndGradient();
}

}  // namespace twofold::nn
