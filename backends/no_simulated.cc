#include "absl/status/status.h"
#include "backends/simulated_row.h"

namespace twofold {
namespace {

std::string WhyNot() { return "this build has no SimGrid (libsimgrid-dev was not found when it was configured)"; }

}  // namespace

const Backend& SimulatedBackend() {
  static constexpr Backend kBackend = {
      .name = "simulated",
      .summary = "ranks and the network between them are simulated; times are predicted",
      .why_not = WhyNot,
      .make = [](const spec::Spec&) -> absl::StatusOr<std::unique_ptr<Fabric>> {
        return absl::UnimplementedError(WhyNot());
      },
      .launcher = [](int) { return std::vector<std::string>(); },
  };
  return kBackend;
}

}  // namespace twofold
