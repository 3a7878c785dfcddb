// Communications as calls of NCCL, given to a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/nccl/api.h"
#include "core/comm/communication.h"

namespace twofold::nccl {

// A message with both its ends known.
struct Message {
  P2p::Kind kind;
  Tensor tensor;  // borrowed
  int peer;       // in the group; before a receive from any source is matched, kAnySource
  Tag tag;
  uint64_t sequence = 0;  // of a send: how manyth from this rank to that peer on this group
};

// What a group's operations are given to.
struct Place {
  ncclComm_t comm;
  cudaStream_t stream;
  int rank, size;     // in the group
  int32_t* scratch;   // on the GPU
};

// Enqueues the collective `c`. Reductions in NCCL's order; bf16 and f16 are rounded at every step. NCCL has no barrier, gather, scatter or
// all-to-all before 2.28: these are an all-reduce of one number, and messages in a NCCL group, as NCCL's own are.
// Throws NcclError and cuda::CudaError.
void EnqueueCollective(const Communication& c, const Place& place);
// Enqueues messages as one NCCL group: they wait for their peers all at once. Those with one peer are matched in their order.
void EnqueueMessages(const std::vector<Message>& messages, const Place& place);

}  // namespace twofold::nccl
