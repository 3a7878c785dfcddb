#include "kernels/cuda/memory.h"

#include <cuda_runtime.h>

#include "kernels/cuda/error.h"
#include "kernels/cuda/streams.h"

namespace twofold::cuda {
namespace {

bool Fits(Bytes reserved, Bytes size, Bytes limit) { return limit.value() == 0 || reserved + size <= limit; }

// Whether there was room. Throws what else went wrong.
bool Got(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // told by the caller; not to be told again by the next call
    return false;
  }
  Check(status);
  return true;
}

}  // namespace

std::optional<Address> GpuSource::Reserve(Bytes size) {
  if (!Fits(reserved_, size, limit_)) return std::nullopt;
  MakeCurrent(gpu_);
  void* p = nullptr;
  if (!Got(cudaMalloc(&p, static_cast<size_t>(size.value())))) return std::nullopt;
  reserved_ += size;
  return reinterpret_cast<Address>(p);
}

void GpuSource::Release(Address address, Bytes size) {
  cudaSetDevice(gpu_);  // errors before this point have been reported, or will be by a call that may throw
  cudaFree(reinterpret_cast<void*>(address));
  reserved_ -= size;
}

std::optional<Address> PinnedSource::Reserve(Bytes size) {
  if (!Fits(reserved_, size, limit_)) return std::nullopt;
  MakeCurrent(gpu_);
  void* p = nullptr;
  if (!Got(cudaHostAlloc(&p, static_cast<size_t>(size.value()), cudaHostAllocPortable))) return std::nullopt;
  reserved_ += size;
  return reinterpret_cast<Address>(p);
}

void PinnedSource::Release(Address address, Bytes size) {
  cudaSetDevice(gpu_);
  cudaDeviceSynchronize();  // a transfer may be under way; that cudaFreeHost waits for it is nowhere promised
  cudaFreeHost(reinterpret_cast<void*>(address));
  reserved_ -= size;
}

}  // namespace twofold::cuda
