// The plain mean: a reduce-scatter over the ranks that keep shards and an all-reduce over those that keep the same
// shard, whichever there are. Gradients may be sent in another type than the one they accumulate in: a narrower type
// for half the bytes, or a wider one so that sums over many ranks are rounded once.
//
// With Psi the bytes of a bucket in the wire type, N ranks of `scatter` and R of `replicate`:
//   memory         another wire type: Psi (Category::kCommunication) from the start of the reduction until the mean has
//                  been stored. Else nothing
//   communication  each rank sends Psi (N - 1) / N bytes, then 2 Psi / N (R - 1) / R
//   compute        another wire type: one pass over the bucket, and one over the mean
// Limits: a group that sums in the wire type at every hop (MPI, NCCL) rounds each time and may overflow F16. Loss
// scaling skips such a step.
#pragma once

#include "strategies/data_parallel/reducer.h"

namespace twofold {

// `wire`: the type in which gradients are sent.
MakeReducer MeanReducers(DType wire);

}  // namespace twofold
