#include <unistd.h>

#include "backends/mpi/fabric.h"
#include "backends/mpi/gpu_buffers.h"
#include "backends/mpi_row.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// More ranks than cores are allowed, and ranks are not bound: their communication threads need a core, too.
std::vector<std::string> Launcher(int ranks) {
  std::vector<std::string> words = {"mpirun", "-n", StrCat(ranks), "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  return words;
}

}  // namespace

const Backend& MpiBackend() {
  static constexpr Backend kBackend = {
      .name = "mpi",
      .summary = "ranks are processes that mpirun, srun or `twofold launch` starts; they communicate by Open MPI",
      .why_not = [] { return std::string(); },
      .make = [](const spec::Spec& spec) { return MakeMpiFabric(spec); },
      .launcher = Launcher,
      .canonical_reductions = false,
      .staging = [](const spec::Spec& spec) { return mpi::GpuBuffers(spec, {}).Staging().value_or(Bytes(0)); },
  };
  return kBackend;
}

}  // namespace twofold
