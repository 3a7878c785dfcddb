#include "backends/host/cuda.h"
#include "backends/mpi/fabric.h"
#include "backends/mpi/gpu_buffers.h"
#include "backends/mpi/types.h"
#include "core/base/strings.h"
#include "tests/conformance/mpi_rows.h"

namespace twofold::conformance {
namespace {

Row MpiRow(std::string name, int ranks, spec::Mpi::GpuBuffers buffers, const mpi::Limits& limits) {
  const Backend& mpi = *FindBackend("mpi");
  Row row{.name = std::move(name),
          .why_not = {},
          .make = [limits](const spec::Spec& spec) { return MakeMpiFabric(spec, limits); },
          .spec = SpecFor("mpi"),
          .launcher = mpi.launcher(ranks),
          .exact_reductions = mpi.canonical_reductions,
          .label = "gpu",
          .most_ranks = ranks};
  row.spec.set_device(spec::CUDA);
  row.spec.mutable_fabric()->mutable_mpi()->set_gpu_buffers(buffers);
  if (const std::string why = host::WhyNoCuda(); !why.empty()) {
    row.why_not = StrCat("skipped without a GPU: ", why);
  } else if (buffers == spec::Mpi::PASSED_ON && !host::GpusAreEmulated()) {
    const absl::StatusOr<Bytes> staging = mpi::GpuBuffers(row.spec, limits).Staging();
    if (!staging.ok()) row.why_not = StrCat("skipped without a GPU that MPI reaches: ", staging.status().message());
  }
  return row;
}

}  // namespace

// The emulation of a GPU can let the host reach its memory: then any MPI library is as good as a CUDA-aware one.
std::vector<Row> MpiRowsOnGpus() {
  std::vector<Row> rows;
  rows.push_back(MpiRow("mpi_cuda", 4, spec::Mpi::STAGED, {}));
  rows.push_back(MpiRow("mpi_cuda_passed_on", 2, spec::Mpi::PASSED_ON, {.reaches_gpus = host::GpusAreEmulated()}));
  if (host::GpusAreEmulated()) {
    std::vector<std::string>& launcher = rows.back().launcher;
    launcher.insert(launcher.begin(), {"env", "TWOFOLD_EMULATED_GPUS_WITHIN_REACH=1"});
  }
  return rows;
}

}  // namespace twofold::conformance
