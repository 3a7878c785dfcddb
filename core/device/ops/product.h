// Matrix products.
#pragma once

#include "core/device/ops/fp8.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

// out[m, n] = op(a) * op(b) (+ bias[n]); op transposes the last two dimensions as stored. a and b are 2-D.
//
// An element-wise epilogue may be fused, so that the product s is not written and read again (GELU as in
// ActivationForward; out and aux have the operands' type, and nothing is accumulated):
//     kGelu       out = gelu(s), and aux = s. GELU is applied to s either before or after it is rounded
//     kGeluSlope  out = s * gelu'(aux): turns the gradient of gelu(aux) into that of aux
//
// If a_scaling and b_scaling are given, a and b are FP8 codes (fp8.h): the product is of what they stand for, with sums
// in F32; out, bias and aux are F32, BF16 or F16. A GPU with FP8 instructions sums 128 terms at a time with its tensor
// cores' bits, and adds these sums in F32 (kernels/cuda/fp8_product.cu), or leaves the product to cuBLASLt
// (kernels/cuda/fp8_choice.h).
struct MatMul {
  enum Epilogue { kNone, kGelu, kGeluSlope };
  Tensor a, b, out /*(acc)*/, bias /* may be empty */;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  Epilogue epilogue = kNone;
  Tensor aux = {} /* [m, n]; empty without an epilogue */;
  Fp8Scaling a_scaling = {}, b_scaling = {};
  // For cost models alone: this is one of so many like products, of parts of one matrix's rows (ring_product.h).
  int64_t parts = 1;
  bool fp8() const { return !a_scaling.empty(); }
};

namespace rules {
Bytes CpuWorkspace(const MatMul&, int threads);
Bytes CudaWorkspace(const MatMul&);

// ---- Shared by the CUDA kernel and its workspace rule ----

// True if cuBLASLt can write the output directly: in the operands' type, or in F32 for BF16 and F16 operands. Otherwise
// it writes to a copy (f32).
bool LibraryStores(DType operands, DType out);
// Sizes of this copy, and of a copy of the bias, which cuBLASLt needs aligned. They come first in the workspace, in
// this order.
Bytes CudaProductCopy(const MatMul&);
Bytes CudaBiasCopy(const MatMul&);

// Products of FP8 operands. True if cuBLASLt has the product on some GPU: sizes are multiples of 16, the bias has out's
// type, and either both operands have one scale and not both are E5M2, or all is E4M3 in blocks that split the sum
// evenly, 1 x 128 of it in one operand and the same or 128 x 128 in the other. Only such products have a workspace; it
// depends neither on the GPU nor on what computes them.
bool LibraryHasFp8(const MatMul&);
// The same on GPUs of a compute capability, given as 10 * major + minor.
bool LibraryHasFp8(const MatMul&, int capability);
// Whether the library then has operands only along the sum, a b^T, so that those that lie across it are transposed
// first.
bool Fp8LiesAlongSum(int capability);

// Sizes of the copies of an operand in cuBLASLt's layout; "across" is one that lies across the sum.
//   codes       [outer, k]                                                       if across
//   1 x 128     F32 [k / 128, outer]                                             unless across, which has them so
//   128 x 128   F32 [outer / 128, k / 128 rounded up to a multiple of 4]         always
// ("cuBLAS Library" 13.0, cublasLtMatmul, "128-element 1D and 128x128 2D Block Scaling"). They come after that of the
// bias: a's codes, b's codes, a's scales, b's scales.
struct Fp8Copies {
  Bytes codes, scales;
};
inline constexpr int64_t kFp8ScalesAlign = 4;
Fp8Copies CudaFp8CopiesOfA(const MatMul&);
Fp8Copies CudaFp8CopiesOfB(const MatMul&);
}  // namespace rules

}  // namespace twofold::ops
