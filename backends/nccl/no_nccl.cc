// The NCCL fabric in a build without NCCL.
#include "absl/status/status.h"
#include "backends/nccl/fabric.h"

namespace twofold {

void PrepareNccl(bool) {}
std::string WhyNoNccl() {
  return "this build has no NCCL (CUDA or nccl.h was not found when it was configured, or TWOFOLD_CUDA was OFF)";
}
absl::StatusOr<std::unique_ptr<Fabric>> MakeNcclFabric(const spec::Spec&) {
  return absl::UnimplementedError(WhyNoNccl());
}

}  // namespace twofold
