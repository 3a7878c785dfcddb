// How communications with buffers on a GPU are done: the MPI library gets the GPU buffers directly, or host copies of
// them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "backends/mpi/types.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"

namespace twofold::mpi {

// Reads device and fabric.mpi.gpu_buffers.
class GpuBuffers {
 public:
  GpuBuffers(const spec::Spec& spec, const Limits& limits)
      : on_gpus_(spec.device() == spec::CUDA), asked_(spec.fabric().mpi().gpu_buffers()), limits_(limits) {}

  // Host memory that each group holds to stage GPU buffers (core/comm/staging.h); zero if they are passed to MPI
  // directly or there are none. Asks the library whether it is CUDA-aware, which some versions know only once MPI has
  // been started. Refuses what it cannot do.
  absl::StatusOr<Bytes> Staging() const;
  // For the report; "" if there are none.
  std::string Describe(Bytes staging) const;

 private:
  const bool on_gpus_;
  const spec::Mpi::GpuBuffers asked_;
  const Limits limits_;
};

}  // namespace twofold::mpi
