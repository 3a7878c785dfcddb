#include "kernels/cuda/capability.h"

#include "kernels/cuda/error.h"

namespace twofold::cuda {

Capability CapabilityOf(int gpu) {
  Capability capability;
  Check(cudaDeviceGetAttribute(&capability.major, cudaDevAttrComputeCapabilityMajor, gpu));
  Check(cudaDeviceGetAttribute(&capability.minor, cudaDevAttrComputeCapabilityMinor, gpu));
  return capability;
}

Capability CapabilityOfCurrentGpu() {
  int gpu = 0;
  Check(cudaGetDevice(&gpu));
  return CapabilityOf(gpu);
}

}  // namespace twofold::cuda
