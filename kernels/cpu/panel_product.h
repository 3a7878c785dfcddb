// Products from packed panels, with a fused bias: the matrix products of layers. As fast as OpenBLAS on the shapes of
// small GPTs (where packing outweighs arithmetic), without OpenBLAS's pass over c before the product, and with scratch
// memory that the ledger accounts for.
#pragma once

#include <cstdint>

#include "kernels/cpu/product.h"

namespace twofold::cpu {

// Elements of scratch memory for one thread's product of at most m x n x k: CpuWorkspace in core/device/ops/product.cc.
int64_t PanelScratch(int64_t m, int64_t n, int64_t k);

// p with alpha 1 and beta 0 or 1, plus bias[j] in every row (null: no bias). Runs on the calling thread. `scratch` has
// PanelScratch elements. Each element of c is a sum of fused multiply-adds in the order of k, in blocks of 256.
void MultiplyPanels(const Product<float>& p, const float* bias, float* scratch);
void MultiplyPanels(const Product<double>& p, const double* bias, double* scratch);

}  // namespace twofold::cpu
