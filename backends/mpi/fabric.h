// The MPI fabric: every rank is a process that mpirun, srun or `twofold launch` started (backends/processes/fabric.h).
//
// Sums of f32 may differ from those of other fabrics in the last bits: the library chooses the order; bf16 and f16 are rounded at
// every step.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

namespace mpi {
struct Limits;
}

// Uses train.threads_per_rank, fabric.timeout_s, fabric.rendezvous.bind, device and emulated.
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec);
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec, const mpi::Limits& limits);  // for tests (types.h)

// Why this build has no MPI; "": it has.
std::string WhyNoMpi();
// mpirun, for `ranks` processes of this host: more than cores are allowed.
std::vector<std::string> MpiLauncher(int ranks);
// Of the host's memory, for each group of several ranks, where GPUs' is staged through it.
Bytes MpiStaging(const spec::Spec& spec);

}  // namespace twofold
