#include "core/nn/pool.h"

namespace twofold::nn {

Tensor MaxPool::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  const auto size = [this](int64_t n) { return (n + 2 * padding_ - size_) / stride_ + 1; };
  const Shape shape{x.dim(0), size(x.dim(1)), size(x.dim(2)), x.dim(3)};
  Tensor y = ctx.Activation(shape, x.dtype());
  saved[kChosen] = ctx.Activation(shape, DType::kU8);
  ctx.Launch(ops::MaxPoolForward{
      .x = x, .y = y, .chosen = saved[kChosen], .size = size_, .stride = stride_, .padding = padding_});
  saved[kX] = x;
  return y;
}

Tensor MaxPool::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor chosen = saved.Take(kChosen);
  Tensor dx = ctx.Activation(saved.Take(kX).shape(), dy.dtype());
  ctx.Launch(ops::MaxPoolBackward{
      .dy = dy, .chosen = chosen, .dx = dx, .size = size_, .stride = stride_, .padding = padding_});
  return dx;
}

Tensor GlobalAveragePool::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor y = ctx.Activation(Shape{x.dim(0), x.dim(-1)}, x.dtype());
  ctx.Launch(ops::AveragePoolForward{.x = x, .y = y});
  saved[kX] = x;
  return y;
}

Tensor GlobalAveragePool::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dx = ctx.Activation(saved.Take(kX).shape(), dy.dtype());
  ctx.Launch(ops::AveragePoolBackward{.dy = dy, .dx = dx});
  return dx;
}

}  // namespace twofold::nn
