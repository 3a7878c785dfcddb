// The NCCL fabric: every rank is a process with a GPU, started by mpirun, srun, `twofold launch` or through a cloud's
// variables (backends/processes/fabric.h).
//
// NCCL chooses the order of sums by size and topology, so they may differ from those of other fabrics in the last bits.
// BF16 and F16 are rounded at every step.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Reads fabric.nccl, fabric.rendezvous, fabric.timeout_s, cuda and memory. Refuses any device but CUDA.
absl::StatusOr<std::unique_ptr<Fabric>> MakeNcclFabric(const spec::Spec& spec);

// Sets environment variables that CUDA and NCCL read at their first call; call it before that.
void PrepareNccl(bool elastic = false);

// Why NCCL is unavailable: its library or a GPU is missing; "" if it is available.
std::string WhyNoNccl();

}  // namespace twofold
