#include "kernels/cuda/memory.h"

#include <cuda_runtime.h>

#include <mutex>

#include "kernels/cuda/error.h"
#include "kernels/cuda/graphs.h"
#include "kernels/cuda/streams.h"

namespace twofold::cuda {
namespace {

bool Fits(Bytes reserved, Bytes size, Bytes limit) { return limit.value() == 0 || reserved + size <= limit; }

// Whether there was room. Throws on any other error.
bool Got(cudaError_t status) {
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // the caller reports it; the next call must not report it again
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
  MakeCurrentIfPossible(gpu_);  // earlier errors have been reported, or will be by a call that may throw
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
  MakeCurrentIfPossible(gpu_);
  const std::scoped_lock no_capture(CapturesOfThisProcess());
  cudaDeviceSynchronize();  // a transfer may be in flight, and no documentation promises that cudaFreeHost waits for it
  cudaFreeHost(reinterpret_cast<void*>(address));
  reserved_ -= size;
}

}  // namespace twofold::cuda
