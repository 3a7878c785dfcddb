// The functions that threads of a kernel can call. Included by cuda_runtime.h.
//
// The threads of a block are fibers of one host thread: each runs until it must wait for others. Their order is random
// (TWOFOLD_EMULATED_ORDER=seed repeats one), and so is the order of blocks. In every other block, one warp continues
// only if no other can. So a missing barrier changes results.
// Under the thread sanitizer, every thread of a block is a thread of its own, ordered only by barriers and exchanges.
// It then reports races in shared and global memory within a block, as compute-sanitizer's racecheck does for shared
// memory. (Blocks are assumed to follow each other.)
// Hopper's asynchronous instructions are in hopper.h.
// If not all threads of a warp or a block reach a barrier, a report on stderr names the kernel, its block and the
// position of its threads, and the launch fails with cudaErrorLaunchFailure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/emulated/types.h"

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace twofold::emulated {

// ---- Waiting for each other ----

// Every thread of the warp (or block) passes the address of an object on its stack. The last one to arrive calls `what`
// for all of them, then all continue. `what` receives the addresses by lane (by thread number) and their count. All
// threads must pass the same `what`; otherwise they are not at the same place. `mask` names the lanes that take part:
// it must be all 32.
using Together = void (*)(void* const* of_threads, int threads);
void WarpTogether(unsigned mask, void* mine, Together what);
void BlockTogether(void* mine, Together what);

// The block's dynamic shared memory, aligned to 128 bytes, initialised to 0xff; null if the launch requested none.
void* DynamicShared();

// The number of the thread within the block, from 0; and within the warp.
int ThreadOfBlock();
inline int Lane() { return ThreadOfBlock() % warpSize; }

template <class T>
struct Exchange {
  T value;
  int lane;  // the lane whose value is wanted
};

template <class T>
T FromLane(unsigned mask, T value, int lane) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "shuffles move 4 or 8 bytes");
  Exchange<T> mine{value, lane};
  WarpTogether(mask, &mine, [](void* const* of_threads, int threads) {
    T values[warpSize];
    for (int i = 0; i < threads; ++i) values[i] = static_cast<Exchange<T>*>(of_threads[i])->value;
    for (int i = 0; i < threads; ++i) {
      auto* to = static_cast<Exchange<T>*>(of_threads[i]);
      to->value = values[to->lane];
    }
  });
  return mine.value;
}

}  // namespace twofold::emulated

inline void __syncthreads() {
  twofold::emulated::BlockTogether(nullptr, [](void* const*, int) {});
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  twofold::emulated::WarpTogether(mask, nullptr, [](void* const*, int) {});
}

// ---- Warp functions. width: a power of two up to 32, the size of the groups of lanes that exchange values ----

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = warpSize) {
  const int lane = twofold::emulated::Lane(), first = lane & ~(width - 1), from = lane - static_cast<int>(by);
  return twofold::emulated::FromLane(mask, value, from < first ? lane : from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = warpSize) {
  const int lane = twofold::emulated::Lane(), last = lane | (width - 1), from = lane ^ with;
  return twofold::emulated::FromLane(mask, value, from > last ? lane : from);
}

inline int __any_sync(unsigned mask, int predicate) {
  twofold::emulated::WarpTogether(mask, &predicate, [](void* const* of_threads, int threads) {
    int any = 0;
    for (int i = 0; i < threads; ++i) any |= *static_cast<int*>(of_threads[i]) != 0;
    for (int i = 0; i < threads; ++i) *static_cast<int*>(of_threads[i]) = any;
  });
  return predicate;
}

// ---- Memory. Threads of other streams may access the same address concurrently. (Atomics also order the accesses
// around them. In CUDA that takes fences, which the thread sanitizer does not know.) ----

inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

inline unsigned atomicAdd(unsigned* at, unsigned x) { return __atomic_fetch_add(at, x, __ATOMIC_ACQ_REL); }

// ---- Numbers ----

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

// Four of the eight bytes of b (4 to 7) and a (0 to 3), which `choice` has a hexadecimal digit for. (The digits'
// highest bit, which would repeat a sign, is not emulated.)
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned choice) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned chosen = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned from = choice >> (4 * i) & 7u;
    chosen |= static_cast<unsigned>(bytes >> (8 * from) & 0xffu) << (8 * i);
  }
  return chosen;
}

inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0f / std::sqrt(x); }
inline float __expf(float x) { return std::exp2(x * 1.4426950408889634f); }  // with the rounding error of the product
inline float __fdividef(float a, float b) {
  return std::abs(b) > 0x1p126f && std::isfinite(a) ? std::copysign(0.0f, a) * std::copysign(1.0f, b) : a / b;
}
// .cu files are compiled with contraction as in nvcc: a multiplication and an addition become one operation with one
// rounding, wherever they are in the code. The results of these functions are rounded separately.
template <class T>
inline T RoundedForItself(T x) {
  volatile T rounded = x;
  return rounded;
}
inline float __fadd_rn(float a, float b) { return RoundedForItself(a + b); }
inline float __fmul_rn(float a, float b) { return RoundedForItself(a * b); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return RoundedForItself(a + b); }
inline double __dmul_rn(double a, double b) { return RoundedForItself(a * b); }

// As in CUDA: both arguments have the same type, or are converted to their common type.
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) auto min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(std::fmin(static_cast<T>(a), static_cast<T>(b)));
  else
    return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <class A, class B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) auto max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(std::fmax(static_cast<T>(a), static_cast<T>(b)));
  else
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
