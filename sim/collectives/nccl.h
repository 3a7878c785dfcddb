// NCCL: rings, trees and NVLink SHARP over the rails of nodes, in three protocols.
//
// Assumes: a call takes its base latency, that of its hops on the longest way, and the bytes on the busiest link divided by
// what the protocol's payload gets of it (nccl_costs.h). NCCL's figure for a hop has the wire in it (that of Places::alpha):
// a route adds only what it is longer than that. Of the algorithms and protocols that serve a call, the one with the least
// such time is taken, as NCCL does (ncclTopoGetAlgoTime); all_to_all, gather and scatter take Simple; a message is a hop of a
// ring in LL or Simple. Before the pipeline of nvls is full, a chunk of 128 KiB (NCCL_NVLS_CHUNKSIZE) for every channel and
// device goes through alone.
// Ignores: PAT, CollNet, the copy engine, user buffers, the steps in which NCCL's channels and chunks grow with size.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "sim/collectives/library.h"

namespace twofold::sim {

// Reads library.nccl() (absent: defaults). Errors name the field, its value and what would be right.
absl::StatusOr<std::unique_ptr<Library>> MakeNcclLibrary(const cluster::Library& library);

}  // namespace twofold::sim
