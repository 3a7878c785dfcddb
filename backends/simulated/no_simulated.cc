// The simulated fabric in a build without SimGrid.
#include "absl/status/status.h"
#include "backends/simulated/fabric.h"
#include "backends/simulated/least_times.h"

namespace twofold {

std::string WhyNoSimulated() {
  return "this build has no SimGrid (libsimgrid-dev was not found when it was configured)";
}
absl::StatusOr<std::unique_ptr<Fabric>> MakeSimulatedFabric(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoSimulated());
}
absl::StatusOr<std::vector<std::string>> SimulatedLinks(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoSimulated());
}
absl::StatusOr<std::unique_ptr<LeastTimes>> MakeLeastTimes(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoSimulated());
}
Bytes SimulatedStaging(const spec::Spec&) { return Bytes(0); }

}  // namespace twofold
