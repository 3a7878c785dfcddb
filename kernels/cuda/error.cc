#include "kernels/cuda/error.h"

namespace twofold::cuda {

void Check(cudaError_t status) {
  if (status == cudaSuccess) [[likely]]
    return;
  throw CudaError(std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status));
}

}  // namespace twofold::cuda
