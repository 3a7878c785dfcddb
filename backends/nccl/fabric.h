// The NCCL fabric: every rank is a process with a GPU, which mpirun, srun, `twofold launch` or a cloud's variables started
// (backends/processes/fabric.h).
//
// NCCL chooses the order of sums, by size and topology: they may differ from those of other fabrics in the last bits; bf16 and f16
// are rounded at every step.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Uses fabric.nccl, fabric.rendezvous, fabric.timeout_s, cuda and memory. Refuses another device than CUDA.
absl::StatusOr<std::unique_ptr<Fabric>> MakeNcclFabric(const spec::Spec& spec);

// Sets variables of this process that CUDA and NCCL read when they are first called, and so must be told before.
void PrepareNccl();

// Why NCCL cannot be had, its library or a GPU; "": it can.
std::string WhyNoNccl();

}  // namespace twofold
