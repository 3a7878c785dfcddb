// The MPI fabric: every rank is a process started by mpirun, srun or `twofold launch` (backends/processes/fabric.h).
//
// The library chooses the order of reductions, so sums of F32 may differ from those of other fabrics in the last bits.
// BF16 and F16 are rounded at every step.
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

// Reads train.threads_per_rank, fabric.timeout_s, fabric.rendezvous.bind, device and emulated.
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec);
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec,
                                                      const mpi::Limits& limits);  // for tests (types.h)

// Why this build has no MPI; "" if it has.
std::string WhyNoMpi();
// The mpirun command for `ranks` processes on this host; more processes than cores are allowed.
std::vector<std::string> MpiLauncher(int ranks);
// Host memory held by each group of several ranks if GPU buffers are staged through it.
Bytes MpiStaging(const spec::Spec& spec);

}  // namespace twofold
