// A GPU's compute capability, which says what kernels it runs.
#pragma once

namespace twofold::cuda {

struct Capability {
  int major = 0, minor = 0;
};

// Throws CudaError.
Capability CapabilityOf(int gpu);
Capability CapabilityOfCurrentGpu();  // the calling thread's

}  // namespace twofold::cuda
