// A GPU's compute capability, which determines the kernels that it can run.
#pragma once

namespace twofold::cuda {

struct Capability {
  int major = 0, minor = 0;
};

// Throws CudaError.
Capability CapabilityOf(int gpu);
Capability CapabilityOfCurrentGpu();  // of the calling thread's current GPU

}  // namespace twofold::cuda
