// Quantised all-gathers of parameters (qwZ): every rank encodes its shard in 8 bits, block by block, and all decode
// what all have encoded. The shards themselves, which the optimizer updates, stay as they are.
//   Wang et al. 2023, "ZeRO++: Extremely Efficient Collective Communication for Giant Model Training": section 4.1.
//
// With Psi parameters of b bytes, sharded over N ranks:
//   memory         while a unit is gathered, its codes: 1 + 4 / 256 bytes per parameter
//   communication  an all-gather sends (1 + 4 / 256) Psi (N - 1) / N bytes instead of b Psi (N - 1) / N
//   compute        per all-gather one pass over Psi / N elements to encode, and one over Psi to decode
//   convergence    the model computes with rounded weights. Wang et al. report losses close to those without
// Use it where the all-gathers of ZeRO-3 are not hidden. Codes are half as large as BF16 weights, a quarter of F32's.
// Limits: a rank also decodes its own shard, so that all ranks compute with the same values. Unless 256 divides a
// shard, each rank's shard is decoded by a kernel of its own.
#pragma once

#include "strategies/data_parallel/parameter_gather.h"

namespace twofold {

MakeGather QuantizedWeights();

}  // namespace twofold
