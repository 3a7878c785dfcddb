#include "absl/status/status.h"
#include "backends/nccl_row.h"

namespace twofold {
namespace {

std::string WhyNot() { return "this build has no NCCL (CUDA or nccl.h was not found when it was configured, or TWOFOLD_CUDA was OFF)"; }

}  // namespace

const Backend& NcclBackend() {
  static constexpr Backend kBackend = {
      .name = "nccl",
      .summary = "ranks are processes with a GPU each; they communicate by NCCL",
      .why_not = WhyNot,
      .make = [](const spec::Spec&) -> absl::StatusOr<std::unique_ptr<Fabric>> { return absl::UnimplementedError(WhyNot()); },
      .launcher = [](int) { return std::vector<std::string>(); },
      .by_variables = true,
  };
  return kBackend;
}

}  // namespace twofold
