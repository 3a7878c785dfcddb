// What becomes of communications whose buffers lie on a GPU: the MPI library gets them as they are, or what was copied from them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "backends/mpi/types.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"

namespace twofold::mpi {

// By device and fabric.mpi.gpu_buffers.
class GpuBuffers {
 public:
  GpuBuffers(const spec::Spec& spec, const Limits& limits)
      : on_gpus_(spec.device() == spec::CUDA), asked_(spec.fabric().mpi().gpu_buffers()), limits_(limits) {}

  // The memory of the host that each group holds to stage them (core/comm/staging.h); zero: they are passed on, or there are none. Asks the
  // library whether it reaches GPUs, which some versions know only once MPI has been started. Refuses what it cannot do.
  absl::StatusOr<Bytes> Staging() const;
  // For the report: "" where there are none.
  std::string Describe(Bytes staging) const;

 private:
  const bool on_gpus_;
  const spec::Mpi::GpuBuffers asked_;
  const Limits limits_;
};

}  // namespace twofold::mpi
