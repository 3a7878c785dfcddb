#include "core/nn/cnn.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/nn/convolution.h"
#include "core/nn/linear.h"
#include "core/nn/pool.h"

namespace twofold::nn {
namespace {

std::unique_ptr<Convolution> Conv(int64_t in, int64_t out, int64_t kernel, int64_t stride, DType dtype,
                                  bool input_gradient = true) {
  const double deviation = std::sqrt(2.0 / static_cast<double>(kernel * kernel * out));
  return std::make_unique<Convolution>(ConvolutionConfig{.in = in,
                                                         .out = out,
                                                         .kernel = kernel,
                                                         .stride = stride,
                                                         .padding = kernel / 2,
                                                         .input_gradient = input_gradient,
                                                         .dtype = dtype,
                                                         .weight_init = {Init::kNormal, 0, deviation}});
}

template <class Config>
std::unique_ptr<BatchNorm> NormOf(const Config& c, int64_t channels, bool relu) {
  return std::make_unique<BatchNorm>(BatchNormConfig{.channels = channels,
                                                     .relu = relu,
                                                     .sync = c.sync_batch_norm,
                                                     .momentum = c.momentum,
                                                     .eps = c.eps,
                                                     .dtype = c.dtype,
                                                     .buffer = c.buffer});
}

}  // namespace

BasicBlock::BasicBlock(const BasicBlockConfig& c) {
  AddChild("conv1", Conv(c.in, c.out, 3, c.stride, c.dtype));
  AddChild("norm1", NormOf(c, c.out, /*relu=*/true));
  AddChild("conv2", Conv(c.out, c.out, 3, 1, c.dtype));
  AddChild("norm2", NormOf(c, c.out, /*relu=*/false));
  if (c.in == c.out && c.stride == 1) return;
  AddChild("shortcut_conv", Conv(c.in, c.out, 1, c.stride, c.dtype));
  AddChild("shortcut_norm", NormOf(c, c.out, /*relu=*/false));
}

Tensor BasicBlock::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor h = Apply(kConv1, ctx, x, saved);
  h = Apply(kNorm1, ctx, h, saved);
  h = Apply(kConv2, ctx, h, saved);
  h = Apply(kNorm2, ctx, h, saved);
  Tensor shortcut = x;
  if (projected()) {
    shortcut = Apply(kShortcutConv, ctx, x, saved);
    shortcut = Apply(kShortcutNorm, ctx, shortcut, saved);
  }
  Tensor y = h.unique() ? h : ctx.Activation(h.shape(), h.dtype());
  ctx.Launch(ops::AddRelu{.a = h, .b = shortcut, .out = y});
  saved[kY] = y;
  return y;
}

// Back through the ReLU after the sum; its output shows which elements it passed.
Tensor BasicBlock::BackThroughRelu(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor y = saved.Take(kY);
  Tensor dsum = dy.unique() ? dy : ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::ActivationBackward{.kind = ops::ActivationForward::kRelu, .x = y, .dy = dy, .dx = dsum});
  return dsum;
}

Tensor BasicBlock::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dsum = BackThroughRelu(ctx, std::move(dy), saved);
  return Composite::BackwardInput(ctx, std::move(dsum), saved);
}

Tensor BasicBlock::Backward(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dsum = BackThroughRelu(ctx, std::move(dy), saved);
  return Composite::Backward(ctx, std::move(dsum), saved);
}

Tensor BasicBlock::Propagate(const Backprop& back, Tensor dy) {
  Tensor around = dy;  // the shortcut's part
  if (projected()) {
    around = back(kShortcutNorm, dy);
    around = back(kShortcutConv, std::move(around));
  }
  Tensor dx = back(kNorm2, std::move(dy));
  dx = back(kConv2, std::move(dx));
  dx = back(kNorm1, std::move(dx));
  dx = back(kConv1, std::move(dx));
  back.ctx.Launch(ops::AddTo{.in = around, .out = dx});
  return dx;
}

std::vector<CnnBlock> BlocksOf(const CnnConfig& c) {
  TWOFOLD_CHECK(!c.widths.empty(), "a network has at least one stage");
  TWOFOLD_CHECK_EQ(c.widths.size(), c.blocks.size());
  std::vector<CnnBlock> blocks;
  int64_t height = c.height, width = c.width, channels = c.widths[0];
  const auto halve = [&] { height = (height + 1) / 2, width = (width + 1) / 2; };
  if (c.stem == CnnConfig::kImageNet) halve(), halve();
  for (size_t s = 0; s < c.widths.size(); ++s) {
    for (int64_t b = 0; b < c.blocks[s]; ++b) {
      const int64_t stride = s > 0 && b == 0 ? 2 : 1;
      if (stride == 2) halve();
      blocks.push_back({absl::StrCat("stages.", s, ".", b), channels, c.widths[s], stride, height, width});
      channels = c.widths[s];
    }
  }
  return blocks;
}

CnnModel::CnnModel(const CnnConfig& c)
    : CnnModel(c, ModelPart::Whole(std::accumulate(c.blocks.begin(), c.blocks.end(), int64_t{0}))) {}

CnnModel::CnnModel(const CnnConfig& c, const ModelPart& part) {
  const std::vector<CnnBlock> blocks = BlocksOf(c);
  part.CheckWithin(static_cast<int64_t>(blocks.size()));
  if (part.embedding) {
    const bool imagenet = c.stem == CnnConfig::kImageNet;
    Add("stem.conv",
        Conv(c.channels, c.widths[0], imagenet ? 7 : 3, imagenet ? 2 : 1, c.dtype, /*input_gradient=*/false));
    Add("stem.norm", NormOf(c, c.widths[0], /*relu=*/true));
    if (imagenet) Add("stem.pool", std::make_unique<MaxPool>(3, 2, 1));
  }
  for (int64_t i = part.first_block; i < part.last_block; ++i) {
    const CnnBlock& block = blocks[static_cast<size_t>(i)];
    Add(block.name, std::make_unique<BasicBlock>(BasicBlockConfig{.in = block.in,
                                                                  .out = block.out,
                                                                  .stride = block.stride,
                                                                  .sync_batch_norm = c.sync_batch_norm,
                                                                  .momentum = c.momentum,
                                                                  .eps = c.eps,
                                                                  .dtype = c.dtype,
                                                                  .buffer = c.buffer}));
  }
  if (!part.head) return;
  const int64_t width = c.widths.back();
  Add("pool", std::make_unique<GlobalAveragePool>());
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  const Init init{Init::kUniform, -bound, bound};
  Add("head", std::make_unique<Linear>(LinearConfig{
                  .in = width, .out = c.classes, .dtype = c.dtype, .weight_init = init, .bias_init = init}));
}

}  // namespace twofold::nn
