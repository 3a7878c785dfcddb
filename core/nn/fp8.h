// The operands of a linear layer's three products, in the layer's own type or in FP8 (core/device/ops/fp8.h).
//
//   y = x W^T     x and W
//   dx = dy W     dy and W
//   dW = dy^T x   dy and x
// With kCurrent every operand has one scale, taken from the tensor at hand; x and W are E4M3, dy is E5M2
// (Transformer Engine's Float8CurrentScaling with Format.HYBRID and powers of two as scales). With kBlock all are E4M3,
// and 128 elements along the product's sum share a scale, of W also 128 across it (DeepSeek-AI 2024, "DeepSeek-V3
// Technical Report", section 3.3.2, and section 3.5.2 on the two tilings of x; Transformer Engine's
// Float8BlockScaling). The sums are F32, as on CUDA cores; an H100's tensor cores keep fewer bits of them (the same
// report, section 3.3.2).
//
// For a layer of in inputs and out outputs and r rows of x, in elements of e bytes:
//   memory   x is kept for dW in 1 byte an element and its scales (kBlock: 4 bytes for 128 elements), instead of e.
//            If another layer keeps the same x in its own type, FP8 adds a copy. W and dy are rounded when they are
//            used, and the codes dropped at once
//   compute  rounding reads e and writes 1 byte an element (kCurrent reads twice): x once (kBlock: once along each
//            dimension), W and dy once in each of the two products
// Nothing is communicated: each rank scales what it has. So ranks that hold parts of one matrix (tp) may have different
// scales, which are powers of two and so differ only in what underflows.
#pragma once

#include "core/device/ops/product.h"
#include "core/nn/module.h"

namespace twofold::nn {

enum class Fp8Recipe : uint8_t { kOff, kCurrent, kBlock };

// A matrix as a product reads it. Without scales it is a tensor of the layer's own type.
struct ProductOperand {
  Tensor matrix;  // 2-D
  ops::Fp8Scaling scaling = {};
};

// Which product is to read an operand, by what it sums over.
enum class Along {
  kColumns,  // y of x; dx of dy
  kRows,     // dW
};

// x [.., in], W [out, in] and dy [.., out], as rows. With kOff they are views.
ProductOperand InputOperand(Context& ctx, Fp8Recipe recipe, const Tensor& x, Along along);
ProductOperand WeightOperand(Context& ctx, Fp8Recipe recipe, const Tensor& weight);
ProductOperand GradientOperand(Context& ctx, Fp8Recipe recipe, const Tensor& dy, Along along);

// x between forward and dW. `read` is what forward's product read of x.
struct SavedInput {
  size_t codes, scales;  // slots of Saved; without FP8, the first holds x
  void Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, const ProductOperand& read, Saved& saved) const;
  // The same for a caller that ran no product.
  void Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, Saved& saved) const;
  ProductOperand Take(Fp8Recipe recipe, Saved& saved) const;  // for dW
};

// The three products. x, W and dy are operands from the functions above; `y`, `dx`: [.., c], written as rows.
ops::MatMul ForwardProduct(const ProductOperand& x, const ProductOperand& weight, const Tensor& y, const Tensor& bias);
ops::MatMul InputGradientProduct(const ProductOperand& dy, const ProductOperand& weight, const Tensor& dx);
ops::MatMul WeightGradientProduct(const ProductOperand& dy, const ProductOperand& x, const Parameter::Gradient& dw);

}  // namespace twofold::nn
