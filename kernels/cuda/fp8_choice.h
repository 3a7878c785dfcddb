// Which kernels compute a product of FP8 operands: cuBLASLt's, or our own (fp8_product.cu).
//
// cuBLASLt has these products (NVIDIA, "cuBLAS Library" 13.0, cublasLtMatmul and "Narrow Precision Data Types Usage"):
//
//   one scale for each operand             a b^T from compute capability 8.9 on; the other layouts on 10.x and 11.x
//   1 x 128 along the sum of one operand,  a b^T on 9.0, from cuBLAS 12.9 on
//   the same or 128 x 128 of the other
//
// So a linear layer's three products are the library's on Ada, Hopper and Blackwell with one scale for each tensor, and
// on Hopper with scales of blocks. On all but 10.x and 11.x the operands of backward products lie across the sum, as W
// in dy W, and dy and x in dy^T x; they are transposed first (fp8_library.cu). Nothing here calls CUDA.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/device/ops.h"
#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/capability.h"

namespace twofold::cuda {

inline constexpr size_t kCublasWithFp8Blocks = 120900;  // as cublasLtGetVersion has it: 12.9.0

// Why cuBLASLt does not have the product on such a GPU; "" if it may be asked for it.
std::string WhyNoLibraryFp8(const ops::MatMul& o, Capability gpu, size_t cublas_version);

class Fp8Choice {
 public:
  using Note = std::function<void(std::string note)>;
  // `own`: our kernels compute all products.
  Fp8Choice(bool own, Capability gpu, size_t cublas_version) : own_(own), gpu_(gpu), version_(cublas_version) {}

  // Sets the receiver of messages for readers of results: whose kernels a product ran on, and why. Each is sent once.
  void SetNote(Note note) { note_ = std::move(note); }

  std::string WhyOwn(const ops::MatMul& o) const;
  // Whether the library gets only operands that lie along the sum.
  bool along_sum() const { return ops::rules::Fp8LiesAlongSum(gpu_.number()); }
  // What the library has refused although WhyOwn is "", so that it is not asked again: the reason, "" if it has not.
  std::string WhyRefused(const AlgorithmKey& product) const;
  void Refused(const AlgorithmKey& product, std::string why) { refused_.emplace(product, std::move(why)); }
  // Tells whose kernels computed the product; `why_own` is "" for the library's.
  void Tell(const ops::MatMul& o, const std::string& why_own);

 private:
  const bool own_;
  const Capability gpu_;
  const size_t version_;
  Note note_;
  std::map<AlgorithmKey, std::string> refused_;  // and why
  std::set<std::pair<std::string_view, std::string>, std::less<>> told_;
};

}  // namespace twofold::cuda
