#include "core/optim/clip.h"

namespace twofold::optim {

Tensor ClipByGlobalNorm(nn::Context& ctx, std::span<const Slice> slices, double max_norm,
                        const std::function<void(Tensor&)>& all_reduce) {
  const DType wide = slices.empty() ? DType::kF32 : ops::AccumulationType(slices[0].gradient.dtype());
  Tensor squares = ctx.device.NewTensor(Shape{1}, wide, Category::kOther);
  Tensor factor = ctx.device.NewTensor(Shape{1}, wide, Category::kOther);

  bool any = false;
  for (const Slice& slice : slices) {
    TWOFOLD_CHECK(ops::AccumulationType(slice.gradient.dtype()) == wide,
                  slice.name + ": gradients all F64, or none");
    if (slice.gradient.numel() == 0) continue;
    ctx.Launch(ops::SquaredNorm{.in = slice.gradient, .out = squares, .accumulate = any});
    any = true;
  }
  if (!any) ctx.Launch(ops::Fill{.out = squares, .value = 0});
  if (all_reduce) all_reduce(squares);

  ctx.Launch(ops::ClipFactor{.squared_norm = squares, .out = factor, .max_norm = max_norm});
  for (const Slice& slice : slices) {
    if (slice.gradient.numel() > 0) ctx.Launch(ops::Scale{.x = slice.gradient, .by = factor});
  }
  return squares;
}

}  // namespace twofold::optim
