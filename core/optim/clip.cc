#include "core/optim/clip.h"

#include <algorithm>
#include <vector>

#include "core/optim/staging.h"

namespace twofold::optim {

namespace {

// Splits gradients in host memory into chunks of one block of the operation each, so that the sum is the same to the
// bit wherever gradients are.
std::vector<Chunk> StagingChunks(Device& device, std::span<const Tensor> gradients, DType wide) {
  std::vector<Chunk> chunks;
  for (const Tensor& gradient : gradients) {
    TWOFOLD_CHECK(ops::AccumulationType(gradient.dtype()) == wide, "either all gradients are F64 or none is");
    const int64_t most = device.IsOnHost(gradient) ? ops::kNormBlock : std::max<int64_t>(gradient.numel(), 1);
    for (int64_t first = 0; first < gradient.numel(); first += most) {
      chunks.push_back({{.home = gradient.Slice(first, std::min(most, gradient.numel() - first))}});
    }
  }
  return chunks;
}

void Square(nn::Context& ctx, const std::vector<Chunk>& chunks, bool adds, Tensor& squares) {
  ChunkStaging(ctx.device, Category::kGradients).Run(chunks, [&](size_t i, std::span<const Tensor> gradient) {
    ctx.Launch(ops::SquaredNorm{.in = gradient[0], .out = squares, .accumulate = adds || i > 0});
  });
}

}  // namespace

Tensor SquaredNorm(nn::Context& ctx, std::span<const Tensor> gradients,
                   const std::function<void(Tensor&)>& all_reduce) {
  const DType wide = gradients.empty() ? DType::kF32 : ops::AccumulationType(gradients[0].dtype());
  Tensor squares = ctx.device.NewTensor(Shape{1}, wide, Category::kOther, "squared norm of the gradients");
  const std::vector<Chunk> chunks = StagingChunks(ctx.device, gradients, wide);
  Square(ctx, chunks, false, squares);
  if (chunks.empty()) ctx.Launch(ops::Fill{.out = squares, .value = 0});
  if (all_reduce) all_reduce(squares);
  return squares;
}

void AddSquares(nn::Context& ctx, std::span<const Tensor> gradients, Tensor& squares) {
  Square(ctx, StagingChunks(ctx.device, gradients, squares.dtype()), true, squares);
}

Tensor ClipFactor(nn::Context& ctx, const Tensor& squared_norm, double max_norm, double scale) {
  Tensor factor = ctx.device.NewTensor(Shape{1}, squared_norm.dtype(), Category::kOther, "clip factor");
  ctx.Launch(ops::ClipFactor{.squared_norm = squared_norm, .out = factor, .max_norm = max_norm, .scale = scale});
  return factor;
}

}  // namespace twofold::optim
