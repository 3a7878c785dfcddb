// Launching kernels. For .cu files only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cuda/error.h"

namespace twofold::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

constexpr int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The first index from `begin` on for which `past` is true, as it is for all behind it; `end` if there is none before.
template <class Index, class F>
__device__ inline Index FirstOf(Index begin, Index end, F past) {
  while (begin < end) {
    const Index middle = (begin + end) / 2;
    if (past(middle))
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

// Enqueues kernel(arguments...) on `grid` blocks of `block` threads with `shared` bytes of dynamic shared memory.
// Throws CudaError. An empty grid does nothing.
template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
            Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr size_t kWithoutAsking = 48 << 10;  // bytes of shared memory; more must be requested on each GPU
  if (shared > kWithoutAsking)
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
#ifdef TWOFOLD_EMULATED_CUDA
  Check(emulated::Enqueue(stream, grid, block, shared, reinterpret_cast<const void*>(kernel),
                          [kernel, ... a = static_cast<Parameters>(arguments)] { kernel(a...); }));
#else
  // clang-format off
  kernel<<<grid, block, shared, stream>>>(static_cast<Parameters>(std::forward<Arguments>(arguments))...);
  // clang-format on
  Check(cudaGetLastError());
#endif
}

// In a kernel: the dynamic shared memory, aligned to 128 bytes.
template <class T>
__device__ inline T* DynamicShared() {
#ifdef TWOFOLD_EMULATED_CUDA
  return static_cast<T*>(emulated::DynamicShared());
#else
  extern __shared__ __align__(128) unsigned char twofold_shared[];
  return reinterpret_cast<T*>(twofold_shared);
#endif
}

// The number of blocks of a kernel with a grid-stride loop: as many as needed, but at most a few per multiprocessor.
inline unsigned GridFor(int64_t threads, int block, int multiprocessors, int per_multiprocessor = 8) {
  return static_cast<unsigned>(
      std::min<int64_t>(CeilDiv(threads, block), int64_t{multiprocessors} * per_multiprocessor));
}

}  // namespace twofold::cuda
