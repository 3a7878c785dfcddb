// Products of FP8 operands (core/device/ops/fp8.h) on a GPU.
#pragma once

#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

// The operation, with its epilogue. Needs no workspace. REQUIRES: o.fp8()
void MultiplyFp8(const ops::MatMul& o, const Context& c);

}  // namespace twofold::cuda
