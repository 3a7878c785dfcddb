// CUDA's vector types and qualifiers, and the types of thread and block indices. Included by cuda_runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
// A host thread (of a stream) runs one block at a time, so a thread-local variable belongs to one block. Every thread
// of the process pays for its size, so large arrays belong in dynamic shared memory. It keeps the values of the
// previous block (it cannot be poisoned: nothing tells where the linker placed it).
#define __shared__ static thread_local

// ---- The vectors that kernels use ----

struct uint3 {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
