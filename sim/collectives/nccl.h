// NCCL, and RCCL as its fork: rings, trees, NVLink SHARP and PAT over the rails of nodes, in three protocols.
//
// Choice: NCCL takes the algorithm and protocol that its tuner expects to be fastest (nccl_tuner.h); RCCL here takes
// what costs least. Costs (nccl_costs.h):
//   ring       base + hops on the longest path + one part copied alone + the bytes on the busiest link over the payload
//              that the protocol leaves, or over what the call's channels carry. Between nodes a hop inside a node
//              takes at least as long as the host needs to post a message (NCCL's getNetOverhead; three in Simple), and
//              the next hop overlaps the transfer of a step, except for the wire. Where a NIC's messages queue up in
//              the host's library, more than 32 steps take NCCL's own latency of Simple for every step of every
//              channel: LL's messages then outrun their receives
//   tree       base + hops, each with a whole chunk handed on (src/device/all_reduce.h, runTreeUpDown) + bytes
//   chain      broadcast and reduce: as a tree; but the hops of successive calls overlap, except between nodes in
//              LL128 and Simple: the first devices are free for the next call while the last still wait for this one
//              (CollectiveShape::follows)
//   nvls       base + bytes, and chunks that go through alone before the pipeline is full
//   pat        base + log2 n hops + 2.8 us a rank (NCCL's tuning.cc: "still a linear part") + bytes at 3/4 of a ring's
//   direct     base + three posts, or a hop, for each peer on another node + bytes; NCCL gives a message channels by
//              its size. Between nodes a channel carries 14 GB/s (NCCL_P2P_PER_CHANNEL_NET_BW); within a node the time
//              ends with the last chunk's copy out of its buffer
// NCCL's figure for a hop includes the wire (Places::alpha): a route adds only its latency in excess of that.
// Ignores: CollNet, the copy engine, user buffers, MSCCL.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "sim/collectives/library.h"

namespace twofold::sim {

// Reads library.nccl() (absent: defaults). Errors name the field, its value and what would be right.
absl::StatusOr<std::unique_ptr<Library>> MakeNcclLibrary(const cluster::Library& library);
absl::StatusOr<std::unique_ptr<Library>> MakeRcclLibrary(const cluster::Library& library);

}  // namespace twofold::sim
