#include "backends/bootstrap/kinds.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<Bootstrap>> MakeStoreBootstrap(const spec::Spec&, const Launch&) {
  return absl::UnimplementedError(
      "this build has no gRPC (libgrpc++-dev was not found when it was configured), so processes can find each other "
      "only through MPI; start them with mpirun");
}

}  // namespace twofold
