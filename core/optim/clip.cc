#include "core/optim/clip.h"

namespace twofold::optim {

Tensor SquaredNorm(nn::Context& ctx, std::span<const Tensor> gradients, const std::function<void(Tensor&)>& all_reduce) {
  const DType wide = gradients.empty() ? DType::kF32 : ops::AccumulationType(gradients[0].dtype());
  Tensor squares = ctx.device.NewTensor(Shape{1}, wide, Category::kOther);
  bool any = false;
  for (const Tensor& gradient : gradients) {
    TWOFOLD_CHECK(ops::AccumulationType(gradient.dtype()) == wide, "gradients are all F64, or none");
    if (gradient.numel() == 0) continue;
    ctx.Launch(ops::SquaredNorm{.in = gradient, .out = squares, .accumulate = any});
    any = true;
  }
  if (!any) ctx.Launch(ops::Fill{.out = squares, .value = 0});
  if (all_reduce) all_reduce(squares);
  return squares;
}

Tensor ClipFactor(nn::Context& ctx, const Tensor& squared_norm, double max_norm, double scale) {
  Tensor factor = ctx.device.NewTensor(Shape{1}, squared_norm.dtype(), Category::kOther);
  ctx.Launch(ops::ClipFactor{.squared_norm = squared_norm, .out = factor, .max_norm = max_norm, .scale = scale});
  return factor;
}

}  // namespace twofold::optim
