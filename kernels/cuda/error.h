// CUDA errors as exceptions, and what becomes of them if there is another way to do the work.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace twofold::cuda {

// An error reported by a call of CUDA, cuBLASLt or cuDNN. Errors of kernels may appear at a later call; the device adds
// the rank and the operation launched last.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws CudaError unless `status` is success.
void Check(cudaError_t status);

// Throws CudaError if the GPU has failed: once a kernel has failed, every call of CUDA in this process reports that
// error (CUDA Runtime API, cudaErrorIllegalAddress and others). Otherwise it resets CUDA's last error, so that no later
// launch reports what a library left there. `while_doing` is part of the message. Throws as well while the stream is
// captured: then the reason may be the capture, and must not be remembered as what a library cannot do.
void ThrowIfGpuFailed(const std::string& while_doing, cudaStream_t stream);

// Calls attempt(), which asks a library for something that can be done in another way, too. Returns "", or why the
// library could not do it. Throws CudaError if not the library but the GPU has failed: any other way would fail as
// well, and its error would hide the cause. All such attempts go through here.
template <class F>
std::string WhyNot(F&& attempt, cudaStream_t stream = nullptr) {
  try {
    attempt();
  } catch (const CudaError& e) {
    ThrowIfGpuFailed(e.what(), stream);
    return e.what();
  }
  return "";
}

}  // namespace twofold::cuda
