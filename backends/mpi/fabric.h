// The MPI fabric: every rank is a process that mpirun, srun or `twofold launch` started (backends/processes/fabric.h).
//
// Sums of f32 may differ from those of other fabrics in the last bits: the library chooses the order; bf16 and f16 are rounded at
// every step.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "backends/mpi/types.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

// Uses train.threads_per_rank, fabric.timeout_s, fabric.rendezvous.bind, device and emulated.
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec, mpi::Limits limits = {});

}  // namespace twofold
