// The MPI fabric in a build without MPI.
#include "absl/status/status.h"
#include "backends/mpi/fabric.h"

namespace twofold {

std::string WhyNoMpi() { return "this build has no MPI (libopenmpi-dev was not found when it was configured)"; }
absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoMpi());
}
std::vector<std::string> MpiLauncher(int) { return {"mpirun"}; }
Bytes MpiStaging(const spec::Spec&) { return Bytes(0); }

}  // namespace twofold
