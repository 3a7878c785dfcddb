// Sequence parallelism with products in FP8 (scaling CURRENT): each rank rounds its own rows, and the codes are
// gathered instead of the rows. For that, the ranks agree on the largest magnitude, from which the scale follows.
//   Transformer Engine, Float8CurrentScalingQuantizer with amax reduction (transformer_engine/pytorch/tensor)
//
// With n ranks and rows of M bytes in the layer's own type, of 2 bytes an element:
//   memory         a layer split by columns keeps M / 2n for the weight's gradient, the codes of the rank's rows; one
//                  split by rows keeps M / 2 until then, the codes of all rows of its gradient
//   communication  an all-reduce of 4 bytes, and M / 2 to gather instead of M
//   compute        rounding 1 / n of the rows instead of all of them
// Codes and scale are those of rounding the gathered rows, to the bit.
#pragma once

#include "core/nn/fp8.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

// Whether layers of this recipe gather codes.
inline bool GathersCodes(const TensorParallelExchange& exchange, nn::Fp8Recipe recipe) {
  return exchange.splits_rows() && recipe == nn::Fp8Recipe::kCurrent;
}

// Rounds this rank's rows `own` into `codes` (U8, of the same shape) with the scale of all ranks' rows. Collective. The
// operand's matrix is `codes` as it is, not as rows.
nn::ProductOperand RoundOwnRows(nn::Context& ctx, const TensorParallelExchange& exchange, const Tensor& own,
                                ops::Fp8Format format, const Tensor& codes);

}  // namespace twofold
