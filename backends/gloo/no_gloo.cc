// The Gloo fabric in a build without Gloo.
#include "absl/status/status.h"
#include "backends/gloo/fabric.h"

namespace twofold {

std::string WhyNoGloo() { return "this build has no Gloo (libgloo-dev was not found when it was configured)"; }
absl::StatusOr<std::unique_ptr<Fabric>> MakeGlooFabric(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoGloo());
}

}  // namespace twofold
