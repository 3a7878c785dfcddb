// Parameters that every rank of a tensor-parallel group has: of norms, positions and the biases of RowParallelLinear. They start
// alike and are updated alike. Without sequence parallelism every rank has seen all rows, hence has the whole gradient; with it
// each has that of its own rows, and the gradients are summed before the update (Korthikanti et al. 2022 leave it unsaid;
// Megatron-LM all-reduces them at the end of a step). Of the ranks, the first counts them in norms and writes them to checkpoints.
#pragma once

#include "core/nn/parameter.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

inline void ShareAmong(const TensorParallelExchange& exchange, nn::Parameter& parameter) {
  parameter.set_shard_layout(nn::ShardLayout::Whole(parameter.shape(), /*owned=*/exchange.group().rank() == 0,
                                   exchange.splits_rows() ? nn::ShardLayout::Sum::kTensor : nn::ShardLayout::Sum::kNone));
}

}  // namespace twofold
