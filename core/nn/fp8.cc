#include "core/nn/fp8.h"

#include <utility>

#include "core/nn/rows.h"

namespace twofold::nn {
namespace {

using ops::Fp8Blocks, ops::Fp8Format, ops::Fp8Scaling;

void Round(Context& ctx, const Tensor& matrix, const ProductOperand& to) {
  ctx.Launch(ops::QuantiseFp8{.in = matrix, .codes = to.matrix, .scaling = to.scaling});
}

ProductOperand Rounded(Context& ctx, const Tensor& matrix, Fp8Format format, Fp8Blocks blocks) {
  const int64_t m = matrix.dim(0), n = matrix.dim(1);
  const Tensor scales = ctx.Activation(ops::Fp8Scales(blocks, m, n), DType::kF32);
  ProductOperand to{ctx.Activation(Shape{m, n}, DType::kU8), {.scales = scales, .format = format, .blocks = blocks}};
  Round(ctx, matrix, to);
  return to;
}

Fp8Blocks BlocksOf(Fp8Recipe recipe, Along along) {
  if (recipe == Fp8Recipe::kCurrent) return Fp8Blocks::kTensor;
  return along == Along::kColumns ? Fp8Blocks::kRow : Fp8Blocks::kColumn;
}

Fp8Blocks BlocksOfWeight(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::kCurrent ? Fp8Blocks::kTensor : Fp8Blocks::kSquare;
}

Fp8Format FormatOfGradient(Fp8Recipe recipe) {
  return recipe == Fp8Recipe::kCurrent ? Fp8Format::kE5M2 : Fp8Format::kE4M3;
}

}  // namespace

ProductOperand InputOperand(Context& ctx, Fp8Recipe recipe, const Tensor& x, Along along) {
  if (recipe == Fp8Recipe::kOff) return {Rows(x)};
  return Rounded(ctx, Rows(x), Fp8Format::kE4M3, BlocksOf(recipe, along));
}

ProductOperand WeightOperand(Context& ctx, Fp8Recipe recipe, const Tensor& weight) {
  if (recipe == Fp8Recipe::kOff) return {weight};
  return Rounded(ctx, weight, Fp8Format::kE4M3, BlocksOfWeight(recipe));
}

ProductOperand WeightCodes::Of(Context& ctx, const Tensor& weight) {
  const Fp8Recipe recipe = options_.recipe;
  if (recipe == Fp8Recipe::kOff || !options_.keep_weights || !ctx.training) return WeightOperand(ctx, recipe, weight);
  if (step_ == ctx.step) return codes_;
  if (codes_.matrix.empty()) {
    const ops::Fp8Blocks blocks = BlocksOfWeight(recipe);
    const auto keep = [&](Shape shape, DType dtype) {
      return ctx.device.NewTensor(std::move(shape), dtype, Category::kOther, "weights in FP8");
    };
    codes_.matrix = keep(weight.shape(), DType::kU8);
    codes_.scaling = {.scales = keep(ops::Fp8Scales(blocks, weight.dim(0), weight.dim(1)), DType::kF32),
                      .format = Fp8Format::kE4M3,
                      .blocks = blocks};
  }
  Round(ctx, weight, codes_);
  step_ = ctx.step;
  return codes_;
}

ProductOperand GradientOperand(Context& ctx, Fp8Recipe recipe, const Tensor& dy, Along along) {
  if (recipe == Fp8Recipe::kOff) return {Rows(dy)};
  return Rounded(ctx, Rows(dy), FormatOfGradient(recipe), BlocksOf(recipe, along));
}

void SavedInput::Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, const ProductOperand& read, Saved& saved) const {
  if (recipe != Fp8Recipe::kCurrent) return Keep(ctx, recipe, x, saved);
  if (!ctx.for_backward) return;
  saved[codes] = read.matrix, saved[scales] = read.scaling.scales;
}

// kBlock: x is rounded from its own type along either dimension, as in Transformer Engine. DeepSeek-V3 rounds forward's
// codes again instead.
void SavedInput::Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, Saved& saved) const {
  if (recipe == Fp8Recipe::kOff) {
    saved[codes] = x;
    return;
  }
  if (!ctx.for_backward) return;
  ProductOperand rounded = InputOperand(ctx, recipe, x, Along::kRows);
  saved[codes] = std::move(rounded.matrix), saved[scales] = std::move(rounded.scaling.scales);
}

ProductOperand SavedInput::Take(Fp8Recipe recipe, Saved& saved) const {
  if (recipe == Fp8Recipe::kOff) return {Rows(saved.Take(codes))};
  return {saved.Take(codes),
          {.scales = saved.Take(scales), .format = Fp8Format::kE4M3, .blocks = BlocksOf(recipe, Along::kRows)}};
}

void SavedGradient::Keep(Fp8Recipe recipe, Tensor gradient, const ProductOperand& read, bool whole,
                         Saved& saved) const {
  if (recipe == Fp8Recipe::kCurrent) saved[codes] = read.matrix, saved[scales] = read.scaling.scales;
  if (recipe != Fp8Recipe::kCurrent || whole) saved[dy] = std::move(gradient);
}

ProductOperand SavedGradient::Take(Context& ctx, Fp8Recipe recipe, const Tensor& gradient, Saved& saved) const {
  if (saved[codes].empty()) return GradientOperand(ctx, recipe, gradient, Along::kRows);
  return {saved.Take(codes),
          {.scales = saved.Take(scales), .format = FormatOfGradient(recipe), .blocks = BlocksOf(recipe, Along::kRows)}};
}

ops::MatMul ForwardProduct(const ProductOperand& x, const ProductOperand& weight, const Tensor& y, const Tensor& bias) {
  return {.a = x.matrix,
          .b = weight.matrix,
          .out = Rows(y),
          .bias = bias,
          .transpose_b = true,
          .a_scaling = x.scaling,
          .b_scaling = weight.scaling};
}

ops::MatMul InputGradientProduct(const ProductOperand& dy, const ProductOperand& weight, const Tensor& dx) {
  return {.a = dy.matrix, .b = weight.matrix, .out = Rows(dx), .a_scaling = dy.scaling, .b_scaling = weight.scaling};
}

ops::MatMul WeightGradientProduct(const ProductOperand& dy, const ProductOperand& x, const Parameter::Gradient& dw) {
  return {.a = dy.matrix,
          .b = x.matrix,
          .out = dw.tensor,
          .transpose_a = true,
          .accumulate = dw.accumulate,
          .a_scaling = dy.scaling,
          .b_scaling = x.scaling};
}

}  // namespace twofold::nn
