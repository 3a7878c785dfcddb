// NCCL: rings, trees and NVLink SHARP over the rails of nodes, in three protocols.
//
// Assumes: a call takes its base latency, plus the latency of its hops on the longest path, plus the bytes on the
// busiest link divided by the bandwidth that the protocol leaves for payload (nccl_costs.h). NCCL's figure for a hop
// includes the wire (Places::alpha): a route adds only its latency in excess of that. Between nodes, a ring's next hop
// overlaps the transfer of a step, except for the wire. Among the algorithms and protocols that support a call, the one
// with the least such time is chosen, as NCCL does (ncclTopoGetAlgoTime); all_to_all, gather and scatter use Simple; a
// message is one hop of a ring in LL or Simple. Before the pipeline of nvls is full, one chunk of 128 KiB
// (NCCL_NVLS_CHUNKSIZE) for every channel and device goes through alone.
// Ignores: PAT, CollNet, the copy engine, user buffers, the steps in which NCCL's channels and chunks grow with size.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "sim/collectives/library.h"

namespace twofold::sim {

// Reads library.nccl() (absent: defaults). Errors name the field, its value and what would be right.
absl::StatusOr<std::unique_ptr<Library>> MakeNcclLibrary(const cluster::Library& library);

}  // namespace twofold::sim
