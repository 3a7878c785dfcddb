// The mover of a GPU (mover.h): a stream of its own. cuda_mover.cc has it, or no_cuda_mover.cc where the build is without CUDA.
#pragma once

#include <memory>

#include "backends/host/mover.h"

namespace twofold::host {

// `device` is a CudaDevice.
std::unique_ptr<Mover> MakeCudaMover(Device& device);

}  // namespace twofold::host
