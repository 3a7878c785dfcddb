// Reading FP8 codes: what they stand for is exact in F32, so products of FP8 operands are those of F32 copies.
#pragma once

#include "core/device/ops/fp8.h"
#include "kernels/cpu/kernels.h"

namespace twofold::cpu {

// out[m, n] = what the codes [m, n] stand for. Rows are divided among the threads.
void DecodeFp8(const Tensor& codes, const ops::Fp8Scaling& scaling, float* out, ThreadPool& pool);

}  // namespace twofold::cpu
