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
//            used. The codes of dy stay until dW (kCurrent; with a bias dy itself, too), those of W are dropped at once
//            or, with `keep_weights`, kept for the other micro-batches of the step: 1 byte a parameter and the scales,
//            from the first step on. On a GPU, the workspace of the products dx and dW has copies of the operands that
//            lie across the sum: of W, and of dy and x (ops::rules::Fp8Copies)
//   compute  rounding reads e and writes 1 byte an element (kCurrent reads twice): x and dy once (kBlock: once along
//            each dimension), W once in each of the two products or, with `keep_weights`, once a step. On most GPUs
//            those copies read and write 1 byte an element more
// These functions communicate nothing: each rank scales what it has (strategies/tensor_parallel/fp8_rows.h does). So
// ranks that hold parts of one matrix (tp) may have different scales, which are powers of two and so differ only in
// what underflows.
#pragma once

#include "core/device/ops/product.h"
#include "core/nn/module.h"

namespace twofold::nn {

enum class Fp8Recipe : uint8_t { kOff, kCurrent, kBlock };

// Of a layer. keep_weights: for weights that change only between steps, and whose tensor is always there.
struct Fp8Options {
  Fp8Recipe recipe = Fp8Recipe::kOff;
  bool keep_weights = false;
};

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
ProductOperand WeightOperand(Context& ctx, Fp8Recipe recipe, const Tensor& weight);  // rounded anew
ProductOperand GradientOperand(Context& ctx, Fp8Recipe recipe, const Tensor& dy, Along along);

// x between forward and dW. `read` is what forward's product read of x.
struct SavedInput {
  size_t codes, scales;  // slots of Saved; without FP8, the first holds x
  void Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, const ProductOperand& read, Saved& saved) const;
  // The same for a caller that ran no product.
  void Keep(Context& ctx, Fp8Recipe recipe, const Tensor& x, Saved& saved) const;
  ProductOperand Take(Fp8Recipe recipe, Saved& saved) const;  // for dW
};

// dy between dx and dW. With kCurrent it is rounded once for both: its codes are kept.
struct SavedGradient {
  size_t dy, codes, scales;  // slots of Saved
  // `read` is what dx's product read of dy. `whole`: dy itself is needed, too (a bias).
  void Keep(Fp8Recipe recipe, Tensor gradient, const ProductOperand& read, bool whole, Saved& saved) const;
  // For dW. `gradient`: what the slot dy held; it is rounded if no codes were kept.
  ProductOperand Take(Context& ctx, Fp8Recipe recipe, const Tensor& gradient, Saved& saved) const;
};

// A layer's weight as its products read it. With `keep_weights`, Transformer Engine's is_first_microbatch: the first
// product of a step rounds it, and the others read the same codes. Validations round anew, since they may follow an
// update of the same step.
class WeightCodes {
 public:
  explicit WeightCodes(const Fp8Options& options) : options_(options) {}
  ProductOperand Of(Context& ctx, const Tensor& weight);

 private:
  const Fp8Options options_;
  ProductOperand codes_;  // allocated by the first step
  int64_t step_ = -1;     // in which they were rounded
};

// The three products. x, W and dy are operands from the functions above; `y`, `dx`: [.., c], written as rows.
ops::MatMul ForwardProduct(const ProductOperand& x, const ProductOperand& weight, const Tensor& y, const Tensor& bias);
ops::MatMul InputGradientProduct(const ProductOperand& dy, const ProductOperand& weight, const Tensor& dx);
ops::MatMul WeightGradientProduct(const ProductOperand& dy, const ProductOperand& x, const Parameter::Gradient& dw);

}  // namespace twofold::nn
