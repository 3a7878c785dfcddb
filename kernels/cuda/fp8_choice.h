// Which kernels compute a product of FP8 operands: cuBLASLt's, or our own (fp8_product.cu).
//
// cuBLASLt has these products, of codes as they lie in memory (NVIDIA, "cuBLAS Library" 13.0, cublasLtMatmul and
// "Narrow Precision Data Types Usage"):
//
//   one scale for each operand         a b^T from compute capability 8.9 on; the other layouts on 10.x and 11.x
//   1 x 128 of a and 128 x 128 of b    a b^T on 9.0, from cuBLAS 12.9 on
//
// So a linear layer's forward product is the library's on Ada, Hopper and Blackwell, and its backward products are on
// data-centre Blackwell, with one scale for each tensor. The operands of backward products lie across the sum, and the
// library would need transposed copies on other GPUs. Nothing here calls CUDA.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/device/ops.h"
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
  // Tells whose kernels computed the product; `why_own` is "" for the library's.
  void Tell(const ops::MatMul& o, const std::string& why_own);

 private:
  const bool own_;
  const Capability gpu_;
  const size_t version_;
  Note note_;
  std::set<std::pair<std::string_view, std::string>, std::less<>> told_;
};

}  // namespace twofold::cuda
