// CUDA errors as exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>

namespace twofold::cuda {

// An error reported by a call of CUDA, cuBLASLt or cuDNN. Errors of kernels may appear at a later call; the device adds
// the rank and the operation launched last.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws CudaError unless `status` is success.
void Check(cudaError_t status);

}  // namespace twofold::cuda
