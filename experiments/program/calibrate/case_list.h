// Cases for calibration, one a kernel and shape: the lists in cases.cc and gpu_cases.cc say which.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/program/calibrate/cases.h"

namespace twofold::calibrate {

using Sizes = std::vector<int64_t>;

// What is larger is left out.
struct CaseLimits {
  double flops;      // of a product: above, it takes longer than it teaches
  int64_t elements;  // of one operand
};

class CaseList {
 public:
  explicit CaseList(const CaseLimits& limits) : limits_(limits) {}
  std::vector<Case> Take() { return std::move(cases_); }

  // Named as reports have it: matmul_nn, ..., matmul_gelu, of weights that are transposed, matmul_gelu_slope, of those that are not.
  void Product(DType t, std::string_view kernel, int64_t m, int64_t n, int64_t k);
  // Every one of batch_heads is a head with keys of its own.
  void Attend(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // The rectangles of a ring's steps: a rank's own tokens, the first half of others' keys, its second half of queries.
  void AttendInRing(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // The products and the softmax of attention whose scores are stored, its heads side by side in qkv.
  void AttendUnfused(DType t, int64_t batch_heads, int64_t length, int64_t d);
  // All that goes by rows and columns, but for losses.
  void ByRow(DType t, int64_t r, int64_t c);
  void Losses(DType t, int64_t r, int64_t c);
  void Route(DType t, int64_t tokens, int64_t experts);
  void Exchange(DType t, int64_t tokens, int64_t c);
  // A layer's three products: forward, and the gradients of its input and of its weights.
  void ExpertProducts(DType t, int64_t rows, int64_t in, int64_t out);
  // All that goes element by element.
  void Element(DType t, int64_t n);
  // One element in a hundred, 8 bits an element, 1 bit an element.
  void Codecs(DType t, int64_t n);
  void Convolve(DType t, const Shape& x, int64_t kernel, int64_t out, int64_t stride);
  // Batch norm and average pooling.
  void Normalise(DType t, const Shape& x);
  void Pool(DType t, const Shape& x);
  // Optimizers; rates of zero keep their operands where they are. bf16 parameters have an f32 master.
  void Step(DType t, int64_t n);

 protected:
  void Add(std::function<ops::Op(Operands&)> make) { cases_.push_back({std::move(make)}); }
  const CaseLimits& limits() const { return limits_; }

 private:
  const CaseLimits limits_;
  std::vector<Case> cases_;
};

}  // namespace twofold::calibrate
