// A second copy of the shards (hpZ): m ranks that are near each other, such as those of a node, hold all parameters
// among themselves. The first time that a unit is gathered after an update, all N ranks send their shards. From then on
// the m ranks have its values, and gather them from each other until the next update.
//   Wang et al. 2023, "ZeRO++: Extremely Efficient Collective Communication for Giant Model Training": section 4.2.
//   There the second copy serves the backward pass. Here it also serves the forward passes of later micro-batches.
//
// With Psi bytes of parameters and A micro-batches a step:
//   memory         Psi / m bytes more per rank
//   communication  a step: one all-gather over N ranks, Psi (N - 1) / N bytes; the others, 2 A - 1 of them (A - 1 of
//                  units that stay gathered), send Psi (m - 1) / m bytes each among m ranks
//   compute        per step, Psi / m bytes copied
//   convergence    as ZeRO-3, to the bit
// Use it where links within a node are much faster than those between nodes, and Psi / m bytes are left. HYBRID_SHARD
// with m ranks sends less, but it holds m ranks' share of the gradients and the optimizer state, too.
#pragma once

#include "strategies/data_parallel/parameter_gather.h"

namespace twofold {

// `all`: how all N ranks gather. The m ranks are those of Sharing::gather_near, which must be set.
MakeGather SecondaryShards(MakeGather all);

}  // namespace twofold
