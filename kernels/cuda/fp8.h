// Products of FP8 operands (core/device/ops/fp8.h) on a GPU.
#pragma once

#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

// Copies of codes [rows, columns], transposed. Sizes are multiples of 16, and the addresses are aligned to 16 bytes.
struct CodesCopy {
  const uint8_t* from = nullptr;
  uint8_t* to = nullptr;
  int64_t rows = 0, columns = 0;
};
// Makes two such copies with one kernel; either may be empty.
void TransposeCodes(const CodesCopy& a, const CodesCopy& b, const Context& c);

// The operation, with its epilogue, by our own kernels. Needs no workspace. REQUIRES: o.fp8()
void MultiplyFp8(const ops::MatMul& o, const Context& c);
// The same by cuBLASLt, with the epilogue as a kernel of its own. Returns false, having done nothing, if our own
// kernels are to compute it: fp8_choice.h.
bool MultiplyFp8ByLibrary(const ops::MatMul& o, const Context& c);

}  // namespace twofold::cuda
