#include "backends/nccl/fabric.h"
#include "backends/nccl_row.h"

namespace twofold {

const Backend& NcclBackend() {
  static constexpr Backend kBackend = {
      .name = "nccl",
      .summary = "ranks are processes with a GPU each; they communicate by NCCL",
      .why_not = WhyNoNccl,
      .make = [](const spec::Spec& spec) { return MakeNcclFabric(spec); },
      .launcher = [](int) { return std::vector<std::string>(); },
      .by_variables = true,
      .canonical_reductions = false,
  };
  return kBackend;
}

}  // namespace twofold
