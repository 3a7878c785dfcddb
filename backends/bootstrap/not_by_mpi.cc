#include "backends/bootstrap/bootstrap.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<control::Client>> MeetByMpi(const spec::Spec&, const Launch&) {
  return absl::UnimplementedError("this build has no MPI (libopenmpi-dev was not found when it was configured)");
}

}  // namespace twofold
