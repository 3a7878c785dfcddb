#include "experiments/program/version.h"

#include <vector>

#include "absl/strings/str_join.h"
#include "backends/host/cpu_level.h"
#include "backends/host/cuda.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "experiments/program/commit.h"

namespace twofold {

std::string VersionName() { return StrCat("twofold ", TWOFOLD_VERSION); }

std::string VersionText() {
  std::vector<std::string> fabrics;
  std::string lacking;
  for (const Backend& backend : Backends()) {
    const std::string why_not = backend.why_not();
    if (why_not.empty())
      fabrics.emplace_back(backend.name);
    else
      StrAppend(&lacking, "\nnot available: fabric ", backend.name, ": ", why_not);
  }
  std::string devices = "CPU, EMULATED";
  if (const std::string why_not = host::WhyNoCuda(); why_not.empty())
    StrAppend(&devices, ", CUDA");
  else
    StrAppend(&lacking, "\nnot available: device CUDA: ", why_not);
  return StrCat(VersionName(), "\ncommit: ", TWOFOLD_COMMIT, "\ncompiler: ", TWOFOLD_COMPILER,
                "\nCPU kernels: ", host::DescribeCpuLevel(), "\nfabrics: ", absl::StrJoin(fabrics, ", "),
                "\ndevices: ", devices, lacking);
}

}  // namespace twofold
