#include "core/optim/clip.h"

#include <algorithm>
#include <vector>

#include "core/optim/staging.h"

namespace twofold::optim {

namespace {

// Cut alike wherever gradients lie: sums are the same to the bit.
std::vector<Chunk> Cut(std::span<const Tensor> gradients, DType wide) {
  constexpr int64_t kElements = 1 << 20;
  std::vector<Chunk> chunks;
  for (const Tensor& gradient : gradients) {
    TWOFOLD_CHECK(ops::AccumulationType(gradient.dtype()) == wide, "gradients are all F64, or none");
    for (int64_t first = 0; first < gradient.numel(); first += kElements) {
      chunks.push_back({{.home = gradient.Slice(first, std::min(kElements, gradient.numel() - first))}});
    }
  }
  return chunks;
}

}  // namespace

Tensor SquaredNorm(nn::Context& ctx, std::span<const Tensor> gradients, const std::function<void(Tensor&)>& all_reduce) {
  const DType wide = gradients.empty() ? DType::kF32 : ops::AccumulationType(gradients[0].dtype());
  Tensor squares = ctx.device.NewTensor(Shape{1}, wide, Category::kOther);
  const std::vector<Chunk> chunks = Cut(gradients, wide);
  Staging(ctx.device, Category::kGradients).Run(chunks, [&](size_t i, std::span<const Tensor> gradient) {
    ctx.Launch(ops::SquaredNorm{.in = gradient[0], .out = squares, .accumulate = i > 0});
  });
  if (chunks.empty()) ctx.Launch(ops::Fill{.out = squares, .value = 0});
  if (all_reduce) all_reduce(squares);
  return squares;
}

Tensor ClipFactor(nn::Context& ctx, const Tensor& squared_norm, double max_norm, double scale) {
  Tensor factor = ctx.device.NewTensor(Shape{1}, squared_norm.dtype(), Category::kOther);
  ctx.Launch(ops::ClipFactor{.squared_norm = squared_norm, .out = factor, .max_norm = max_norm, .scale = scale});
  return factor;
}

}  // namespace twofold::optim
