#include "backends/simulated/fabric.h"
#include "backends/simulated/plan.h"
#include "backends/simulated_row.h"
#include "core/comm/staging.h"

namespace twofold {

const Backend& SimulatedBackend() {
  static constexpr Backend kBackend = {
      .name = "simulated",
      .summary = "ranks and the network between them are simulated; times are predicted",
      .why_not = [] { return std::string(); },
      .make = [](const spec::Spec& spec) { return MakeSimulatedFabric(spec); },
      .launcher = [](int) { return std::vector<std::string>(); },
      .staging = [](const spec::Spec& spec) { return spec.fabric().simulated().links() == kStagedLinks ? Staging::kBytes : Bytes(0); },
  };
  return kBackend;
}

}  // namespace twofold
