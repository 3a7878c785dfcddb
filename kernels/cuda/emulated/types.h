// CUDA's vector types and qualifiers, and the types of thread and block indices. Included by cuda_runtime.h.
#pragma once

#include <cstddef>
#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// A host thread (of a stream) runs one block at a time, so a thread-local variable belongs to one block. Every thread
// of the process pays for its size, so large arrays belong in dynamic shared memory. It keeps the values of the
// previous block (it cannot be poisoned: nothing tells where the linker placed it).
#define __shared__ static thread_local

// ---- Vectors ----

#define TWOFOLD_EMULATED_VECTORS(type, name, pair, four)                      \
  struct name##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct alignas(pair) name##2 {                                              \
    type x, y;                                                                \
  };                                                                          \
  struct name##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(four) name##4 {                                              \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline name##1 make_##name##1(type x) { return {x}; }                       \
  inline name##2 make_##name##2(type x, type y) { return {x, y}; }            \
  inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; } \
  inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
TWOFOLD_EMULATED_VECTORS(signed char, char, 2, 4)
TWOFOLD_EMULATED_VECTORS(unsigned char, uchar, 2, 4)
TWOFOLD_EMULATED_VECTORS(short, short, 4, 8)
TWOFOLD_EMULATED_VECTORS(unsigned short, ushort, 4, 8)
TWOFOLD_EMULATED_VECTORS(int, int, 8, 16)
TWOFOLD_EMULATED_VECTORS(unsigned int, uint, 8, 16)
TWOFOLD_EMULATED_VECTORS(long long, longlong, 16, 16)
TWOFOLD_EMULATED_VECTORS(unsigned long long, ulonglong, 16, 16)
TWOFOLD_EMULATED_VECTORS(float, float, 8, 16)
TWOFOLD_EMULATED_VECTORS(double, double, 16, 16)
#undef TWOFOLD_EMULATED_VECTORS

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
