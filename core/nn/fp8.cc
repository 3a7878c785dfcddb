#include "core/nn/fp8.h"

#include <utility>

#include "core/nn/rows.h"

namespace twofold::nn {
namespace {

using ops::Fp8Blocks, ops::Fp8Format, ops::Fp8Scaling;

ProductOperand Rounded(Context& ctx, const Tensor& matrix, Fp8Format format, Fp8Blocks blocks) {
  const int64_t m = matrix.dim(0), n = matrix.dim(1);
  const Tensor scales = ctx.Activation(ops::Fp8Scales(blocks, m, n), DType::kF32);
  ProductOperand to{ctx.Activation(Shape{m, n}, DType::kU8), {.scales = scales, .format = format, .blocks = blocks}};
  ctx.Launch(ops::QuantiseFp8{.in = matrix, .codes = to.matrix, .scaling = to.scaling});
  return to;
}

Fp8Blocks BlocksOf(Fp8Recipe recipe, Along along) {
  if (recipe == Fp8Recipe::kCurrent) return Fp8Blocks::kTensor;
  return along == Along::kColumns ? Fp8Blocks::kRow : Fp8Blocks::kColumn;
}

}  // namespace

ProductOperand InputOperand(Context& ctx, Fp8Recipe recipe, const Tensor& x, Along along) {
  if (recipe == Fp8Recipe::kOff) return {Rows(x)};
  return Rounded(ctx, Rows(x), Fp8Format::kE4M3, BlocksOf(recipe, along));
}

ProductOperand WeightOperand(Context& ctx, Fp8Recipe recipe, const Tensor& weight) {
  if (recipe == Fp8Recipe::kOff) return {weight};
  return Rounded(ctx, weight, Fp8Format::kE4M3,
                 recipe == Fp8Recipe::kCurrent ? Fp8Blocks::kTensor : Fp8Blocks::kSquare);
}

ProductOperand GradientOperand(Context& ctx, Fp8Recipe recipe, const Tensor& dy, Along along) {
  if (recipe == Fp8Recipe::kOff) return {Rows(dy)};
  const Fp8Format format = recipe == Fp8Recipe::kCurrent ? Fp8Format::kE5M2 : Fp8Format::kE4M3;
  return Rounded(ctx, Rows(dy), format, BlocksOf(recipe, along));
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
