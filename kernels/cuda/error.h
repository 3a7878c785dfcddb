// CUDA's errors as exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace twofold::cuda {

// What a call of CUDA, cuBLASLt or cuDNN says went wrong. Errors of kernels may come at a later call; the device adds the rank
// and what was launched last.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws CudaError unless `status` is success.
void Check(cudaError_t status);

}  // namespace twofold::cuda
