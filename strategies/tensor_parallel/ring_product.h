// Products that overlap the communication they depend on: an all-gather whose rows are multiplied as they arrive, and a
// reduce-scatter whose rows are computed just before they are sent.
//   Wang et al. 2023, "Overlap Communication with Dependent Computation via Decomposition in Large Deep Learning
//   Models", ASPLOS, section 5 (AllGather-Einsum and Einsum-ReduceScatter); Transformer Engine calls it
//   tp_comm_overlap.
//
// Ranks form a ring. With n ranks and a tensor of M bytes whose rows they share (exchange.h):
//   memory         gathering: two parts of M / n instead of M, unless the whole is kept; summing: four parts of M / n
//                  instead of M and a part
//   communication  n - 1 messages of M / n to a neighbour, which are as many bytes as the collective's
//   compute        n products of 1 / n of the rows, which fill a GPU less well, and n - 1 additions of M / n
// Every message but the last of a sum is hidden behind a product if it takes no longer. So it pays where a part's
// product takes longer than its message; with small parts, launches and latencies cost more than they hide.
// Sums are added up around the ring, in the activations' type, so they round otherwise than a reduce-scatter.
#pragma once

#include "absl/functional/function_ref.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

// Calls `product` with each rank's rows, this rank's first, then in the order in which they come. `own`: this rank's
// rows. `all`, if not null, has this rank's rows in their place, and receives the others'.
void GatherInRing(nn::Context& ctx, const TensorParallelExchange& exchange, const Tensor& own, const Tensor* all,
                  absl::FunctionRef<void(const Tensor& rows, int rank)> product);

// Calls `product` once for each rank; it computes this rank's part of the sum for that rank's rows, into `out`. Returns
// the sum of this rank's rows, [b, t / n, h] as `own`.
Tensor ScatterInRing(nn::Context& ctx, const TensorParallelExchange& exchange, const Shape& own, DType dtype,
                     absl::FunctionRef<void(int rank, const Tensor& out)> product);

}  // namespace twofold
