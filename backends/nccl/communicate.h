// Communications as NCCL calls on a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/nccl/api.h"
#include "core/comm/communication.h"

namespace twofold::nccl {

// A message with both ends known.
struct Message {
  P2p::Kind kind;
  Tensor tensor;  // borrowed
  int peer;       // in the group; kAnySource until a receive from any source is matched
  Tag tag;
  uint64_t sequence = 0;  // of a send: its number among those from this rank to that peer on this group
};

// Where a group's operations are enqueued.
struct Place {
  ncclComm_t comm;
  cudaStream_t stream;
  int rank, size;    // in the group
  int32_t* scratch;  // on the GPU
};

// Enqueues the collective `c`. Reductions are in NCCL's order; BF16 and F16 are rounded at every step. An all-to-all is
// NCCL's own, which NCCL 2.28 and later have. Before, it is messages in a NCCL group, as gather, scatter and uneven
// all-to-alls are in every version. A barrier is an all-reduce of one number. Throws NcclError and cuda::CudaError.
void EnqueueCollective(const Communication& c, const Place& place);
// Enqueues messages as one NCCL group, so that they wait for all peers at once. Messages with the same peer are matched
// in order.
void EnqueueMessages(const std::vector<Message>& messages, const Place& place);

}  // namespace twofold::nccl
