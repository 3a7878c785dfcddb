#include "backends/mpi/gpu_buffers.h"

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

#include "backends/host/cuda.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

// An Open MPI extension; other libraries do not have it.
bool LibraryReachesGpus() {
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

// "Open MPI v4.1.4".
std::string LibraryName() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string version(text, static_cast<size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace

absl::StatusOr<Bytes> GpuBuffers::Staging() const {
  const bool reaches = limits_.reaches_gpus || (LibraryReachesGpus() && !host::GpusAreEmulated());
  if (!on_gpus_ || (asked_ != spec::Mpi::STAGED && reaches)) return Bytes(0);
  if (asked_ != spec::Mpi::PASSED_ON) return limits_.staging;
  return FailedPrecondition(
      "fabric.mpi.gpu_buffers: PASSED_ON, but ", LibraryName(),
      host::GpusAreEmulated() ? " cannot reach an emulated GPU" : " is not CUDA-aware", "; use STAGED or AUTO",
      host::GpusAreEmulated()
          ? ""
          : ", or a library that was built with CUDA (`ompi_info --parsable --all | grep cuda_support`)");
}

std::string GpuBuffers::Describe(Bytes staging) const {
  if (!on_gpus_) return "";
  if (staging.value() == 0) return StrCat("buffers on GPUs are passed on to ", LibraryName(), ", which is CUDA-aware");
  return StrCat("buffers on GPUs are staged: each group copies through ", staging.value() >> 10,
                " KiB of pinned host memory, which the ledger counts",
                asked_ == spec::Mpi::STAGED ? "" : StrCat("; ", LibraryName(), " is not CUDA-aware"));
}

}  // namespace twofold::mpi
