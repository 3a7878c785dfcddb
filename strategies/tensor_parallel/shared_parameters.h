// Parameters that every rank of a tensor-parallel group holds: those of norms, positions and layers that are not split,
// and the biases of RowParallelLinear. They start equal and are updated equally. Without sequence parallelism every
// rank sees all rows and has the whole gradient. With it, each rank has the gradient of its own rows, and the gradients
// are summed before the update (Korthikanti et al. 2022 do not mention this; Megatron-LM all-reduces them at the end of
// a step). The first rank of the group owns these parameters: it counts them in norms and writes them to checkpoints.
#pragma once

#include "core/nn/parameter.h"
#include "strategies/groups/group_tags.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

inline void ShareAmong(const TensorParallelExchange& exchange, nn::Parameter& parameter) {
  parameter.set_shard_layout(nn::ShardLayout::Whole(parameter.shape(), /*owned=*/exchange.group().rank() == 0,
                                                    kTensorTag, /*partial=*/exchange.splits_rows()));
}

}  // namespace twofold
