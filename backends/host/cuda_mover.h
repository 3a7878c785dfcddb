// The mover of a GPU (mover.h), with a stream of its own. In cuda_mover.cc, or in no_cuda_mover.cc if the build has no
// CUDA.
#pragma once

#include <memory>

#include "backends/host/mover.h"

namespace twofold::host {

// `device` must be a CudaDevice.
std::unique_ptr<Mover> MakeCudaMover(Device& device);

}  // namespace twofold::host
