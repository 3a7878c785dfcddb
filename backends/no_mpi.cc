#include "absl/status/status.h"
#include "backends/mpi_row.h"

namespace twofold {
namespace {

std::string WhyNot() { return "this build has no MPI (libopenmpi-dev was not found when it was configured)"; }

}  // namespace

const Backend& MpiBackend() {
  static constexpr Backend kBackend = {
      .name = "mpi",
      .summary = "ranks are processes that mpirun, srun or `twofold launch` starts; they communicate by Open MPI",
      .why_not = WhyNot,
      .make = [](const spec::Spec&) -> absl::StatusOr<std::unique_ptr<Fabric>> { return absl::UnimplementedError(WhyNot()); },
      .launcher = [](int) { return std::vector<std::string>(); },
  };
  return kBackend;
}

}  // namespace twofold
