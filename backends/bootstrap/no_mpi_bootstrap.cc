#include "backends/bootstrap/kinds.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<Bootstrap>> MakeMpiBootstrap(const spec::Spec&, const Launch&) {
  return absl::UnimplementedError("this build has no MPI (libopenmpi-dev was not found when it was configured)");
}

}  // namespace twofold
