// Builds cases for calibration, one per kernel and shape. cases.cc and gpu_cases.cc choose the shapes.
#pragma once

#include <functional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiments/program/calibrate/cases.h"

namespace twofold::calibrate {

using Sizes = std::vector<int64_t>;

// Cases above these limits are left out.
struct CaseLimits {
  double flops;      // of a product: a larger one takes too long for what it adds
  int64_t elements;  // of one operand
};

class CaseList {
 public:
  explicit CaseList(const CaseLimits& limits) : limits_(limits) {}
  std::vector<Case> Take() { return std::move(cases_); }

  // Kernels are named as in reports: matmul_nn, ...; matmul_gelu (transposed weights); matmul_gelu_slope (weights not
  // transposed).
  void Product(DType t, std::string_view kernel, int64_t m, int64_t n, int64_t k);
  // The same in FP8, with bf16 results: of one scale for each operand, and of one for 128 elements along the sum, as a
  // linear layer has them. Kernels are named without "fp8_".
  void ProductInFp8(std::string_view kernel, int64_t m, int64_t n, int64_t k);
  // Rounding to FP8, with one scale, and with one for each 128 x 128, which stands for other blocks, too.
  void RoundToFp8(DType t, int64_t r, int64_t c);
  void RoundToFp8InHalves(DType t, int64_t r, int64_t c);  // with one scale
  // Each of the batch_heads heads has keys of its own.
  void Attend(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // The rectangles of the steps of ring attention: a rank's own tokens, the first half of other ranks' keys, the rank's
  // second half of queries.
  void AttendInRing(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // The products and the softmax of unfused attention, which stores the scores; the heads lie side by side in qkv.
  void AttendUnfused(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // All kernels over rows and columns except losses.
  void ByRow(DType t, int64_t r, int64_t c);
  void Losses(DType t, int64_t r, int64_t c);
  void Route(DType t, int64_t tokens, int64_t experts);
  void Exchange(DType t, int64_t tokens, int64_t c);
  // A layer's three products: forward, and the gradients of its input and of its weights.
  void ExpertProducts(DType t, int64_t rows, int64_t in, int64_t out);
  // All element-wise kernels.
  void Element(DType t, int64_t n);
  // Gradient codecs: top-k with 1 % of the elements, 8 bits per element, 1 bit per element.
  void Codecs(DType t, int64_t n);
  void Convolve(DType t, const Shape& x, int64_t kernel, int64_t out, int64_t stride);
  // Batch norm and average pooling.
  void Normalise(DType t, const Shape& x);
  void Pool(DType t, const Shape& x);
  // Optimizers. Learning rates are zero, so operands keep their values. bf16 parameters have an f32 master.
  void Step(DType t, int64_t n);
  void Clip();  // the factor of gradient clipping

 protected:
  const CaseLimits& limits() const { return limits_; }

 private:
  // Adds an operation with these fields, in the order of its struct: values, or functions of Operands that make one.
  template <class Operation, class... Fields>
  void Add(Fields... fields) {
    cases_.push_back({[=](Operands& operands) -> ops::Op { return Operation{Made(fields, operands)...}; }});
  }
  template <class Field>
  static auto Made(const Field& field, Operands& operands) {
    if constexpr (std::is_invocable_v<const Field&, Operands&>)
      return field(operands);
    else
      return field;
  }

  const CaseLimits limits_;
  std::vector<Case> cases_;
};

}  // namespace twofold::calibrate
