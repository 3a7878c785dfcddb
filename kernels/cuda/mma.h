// Access to tensor cores: the matrix instruction of a warp, loads of its fragments from shared memory, and asynchronous
// copies to shared memory. For .cu files only; only this file, hopper.h and numbers.h contain PTX. Everything here is
// available from compute capability 8.0 on (PTX ISA 8.x, "Warp-level matrix instructions", "Asynchronous copy").
//
// mma.m16n8k16 computes c[16, 8] += a[16, 16] * b[16, 8]. Each lane holds fragments of them, two 16-bit elements per
// register. In lane l, with g = l / 4 and p = 2 * (l % 4):
//   a[0]: row g, columns p and p + 1    a[1]: row g + 8    a[2]: row g, columns p + 8 and p + 9    a[3]: row g + 8
//   b[0]: rows p and p + 1 of column g  b[1]: rows p + 8 and p + 9
//   c[0], c[1]: row g, columns p and p + 1                 c[2], c[3]: row g + 8
// So two neighbouring results c, rounded, form a fragment a of the next product.
//
// mma.m16n8k32 does the same for FP8 codes, c[16, 8] += a[16, 32] * b[32, 8], with four codes per register. With
// q = 4 * (l % 4):
//   a[0]: row g, columns q to q + 3     a[1]: row g + 8    a[2]: row g, columns q + 16 to q + 19    a[3]: row g + 8
//   b[0]: rows q to q + 3 of column g   b[1]: rows q + 16 to q + 19
// and c as above. GPUs have it from 8.9 on (PTX ISA 8.4). A Hopper GPU keeps about 14 bits of its sums (DeepSeek-AI
// 2024, "DeepSeek-V3 Technical Report", section 3.3.2).
//
// The emulation (cmake/cuda.cmake) has the same fragments. It does copies as late as allowed, when they are waited for,
// so that reading too early gives wrong values.
#pragma once

#include <cstdint>

#include "core/device/ops/fp8.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"

#ifdef TWOFOLD_EMULATED_CUDA
#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>
#endif

namespace twofold::cuda {

#ifndef TWOFOLD_EMULATED_CUDA

// T: Bf16 or Half. Products and sums are in f32.
template <class T>
__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// Addresses in shared memory are an offset (elements of T) from a base, so that they are computed in 32 bits.
template <class T>
__device__ inline uint32_t SharedAddress(const T* base, int offset) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(base)) + static_cast<uint32_t>(offset) * sizeof(T);
}

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l gives the address of row l % 8 of matrix
// l / 8 (16 bytes, aligned), and receives in to[i] the elements p and p + 1 of row g of matrix i; transposed: of column
// g.
template <class T>
__device__ inline void LoadMatrices(uint32_t (&to)[4], const T* base, int offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(base, offset))
               : "memory");
}
template <class T>
__device__ inline void LoadMatricesTransposed(uint32_t (&to)[4], const T* base, int offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(SharedAddress(base, offset))
               : "memory");
}

// Copies 16 bytes from global to shared memory, both 16-byte aligned. Unless `there`, it writes zeros and reads
// nothing. The copies of a thread since its last commit form a group; a thread can wait until at most its kGroups
// newest groups are in flight. Copies of other threads are visible after a __syncthreads that follows their wait.
template <class T>
__device__ inline void CopyAsync(T* base, int offset, const T* from, bool there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(base, offset)),
               "l"(__cvta_generic_to_global(from)), "r"(there ? 16 : 0)
               : "memory");
}
__device__ inline void CopyAsync(float* to, const float* from, bool there) {  // one number
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to, 0)),
               "l"(__cvta_generic_to_global(from)), "r"(there ? 4 : 0)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kGroups>
__device__ inline void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// Returns x, but hides from the compiler that it is unchanged: values derived from it are recomputed here instead of
// kept.
__device__ inline int MadeAnew(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

// Packs two elements, rounded to nearest, into a register; the first one is in the lower half.
template <class T>
__device__ inline uint32_t PackTwo(float first, float second) {
  uint32_t two;
  if constexpr (std::is_same_v<T, Bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  }
  return two;
}

// 2^x within 2 ulp; results below the smallest normal number are 0.
__device__ inline float ApproximateExp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else  // emulated

namespace emulated_mma {

template <class T>
float Element(uint32_t two, int which) {
  return ToFloat(T{static_cast<uint16_t>(two >> (16 * which))});
}

struct Fragments {
  float* c;
  uint32_t a[4], b[2];
};
template <class T>
void MultiplyAdd(void* const* lanes, int) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& of = *static_cast<const Fragments*>(lanes[lane]);
    const int g = lane / 4, p = lane % 4 * 2;
    for (int i = 0; i < 2; ++i) {
      for (int r = 0; r < 4; ++r) a[g + r % 2 * 8][p + r / 2 * 8 + i] = Element<T>(of.a[r], i);
      for (int r = 0; r < 2; ++r) b[p + r * 8 + i][g] = Element<T>(of.b[r], i);
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) {
      static_cast<const Fragments*>(lanes[row % 8 * 4 + column / 2])->c[row / 8 * 2 + column % 2] += sums[column];
    }
  }
}

struct RowOfMatrices {
  uint32_t* to;
  const uint16_t* row;
};
template <bool kTransposed>
void LoadMatrices(void* const* lanes, int) {
  const auto of = [lanes](int lane) { return static_cast<const RowOfMatrices*>(lanes[lane]); };
  for (int lane = 0; lane < kWarp; ++lane) {
    const int g = lane / 4, p = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const auto at = [&](int r, int c) -> uint32_t { return of(8 * i + r)->row[c]; };
      of(lane)->to[i] = kTransposed ? at(p, g) | at(p + 1, g) << 16 : at(g, p) | at(g, p + 1) << 16;
    }
  }
}

struct Copy {
  void* to;
  const void* from;  // null: zeros
  size_t bytes;
  int group;
};
struct CopiesOfThread {
  std::vector<Copy> under_way;
  int groups = 0;
};
// The threads of a block take turns on one host thread. Null: no copies are in flight. (Nothing here may be created on
// first use: to the thread sanitizer these are separate threads.)
inline constinit thread_local CopiesOfThread* copies_of_block[1024] = {};
inline CopiesOfThread*& Copies() { return copies_of_block[emulated::ThreadOfBlock()]; }

inline void Begin(Copy copy) {
  if (Copies() == nullptr) Copies() = new CopiesOfThread;
  copy.group = Copies()->groups;
  Copies()->under_way.push_back(copy);
}

}  // namespace emulated_mma

template <class T>
void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated_mma::Fragments mine = {c, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  emulated::WarpTogether(kAllLanes, &mine, emulated_mma::MultiplyAdd<T>);
}
template <class T>
void LoadMatrices(uint32_t (&to)[4], const T* base, int offset) {
  emulated_mma::RowOfMatrices mine = {to, reinterpret_cast<const uint16_t*>(base + offset)};
  emulated::WarpTogether(kAllLanes, &mine, emulated_mma::LoadMatrices<false>);
}
template <class T>
void LoadMatricesTransposed(uint32_t (&to)[4], const T* base, int offset) {
  emulated_mma::RowOfMatrices mine = {to, reinterpret_cast<const uint16_t*>(base + offset)};
  emulated::WarpTogether(kAllLanes, &mine, emulated_mma::LoadMatrices<true>);
}

template <class T>
void CopyAsync(T* base, int offset, const T* from, bool there) {
  T* to = base + offset;
  TWOFOLD_CHECK(reinterpret_cast<uintptr_t>(to) % 16 == 0 && reinterpret_cast<uintptr_t>(from) % 16 == 0, "aligned");
  emulated_mma::Begin({to, there ? from : nullptr, 16});
}
inline void CopyAsync(float* to, const float* from, bool there) {
  emulated_mma::Begin({to, there ? from : nullptr, sizeof(float)});
}
inline void CommitCopies() {
  if (emulated_mma::Copies() != nullptr) ++emulated_mma::Copies()->groups;
}
template <int kGroups>
void WaitForCopies() {
  auto*& copies = emulated_mma::Copies();
  if (copies == nullptr) return;
  auto& under_way = copies->under_way;
  const auto left = std::find_if(under_way.begin(), under_way.end(),
                                 [&](const auto& c) { return c.group >= copies->groups - kGroups; });
  for (auto copy = under_way.begin(); copy != left; ++copy) {
    if (copy->from != nullptr)
      std::memcpy(copy->to, copy->from, copy->bytes);
    else
      std::memset(copy->to, 0, copy->bytes);
  }
  under_way.erase(under_way.begin(), left);
  if (under_way.empty()) delete std::exchange(copies, nullptr);
}

inline int MadeAnew(int x) { return x; }

template <class T>
uint32_t PackTwo(float first, float second) {
  T a, b;
  Store(&a, first);
  Store(&b, second);
  return a.bits | static_cast<uint32_t>(b.bits) << 16;
}
inline float ApproximateExp2(float x) { return x < -126 ? 0.0f : std::exp2(x); }

#endif

// ---- Products of FP8 codes ----

// Codes 2 i and 2 i + 1 of a register, as two numbers of F16, which has all numbers of both formats.
template <ops::Fp8Format kFormat>
__device__ inline uint32_t WidenTwo(uint32_t codes, int i) {
  const uint32_t two = codes >> (16 * i), first = two & 0xffu, second = two >> 8 & 0xffu;
  if constexpr (kFormat == ops::Fp8Format::kE5M2) {
    return first << 8 | second << 24;  // the upper halves of numbers in F16
  } else {
    // The exponent of F32 has a bias of 127 instead of 7. Codes without an exponent become subnormal before the
    // product.
    const auto wide = [](uint32_t code) {
      const uint32_t size = code & 0x7fu;
      const float x = size == 0x7fu ? __uint_as_float(0x7fc00000u) : __uint_as_float(size << 20) * 0x1p120f;
      return __uint_as_float(__float_as_uint(x) | (code & 0x80u) << 24);
    };
    return PackTwo<Half>(wide(first), wide(second));
  }
}

// mma.m16n8k32 in two instructions of m16n8k16 on F16, with the same fragments. Each takes half of the codes of every
// register: which elements of the inner dimension meet first does not matter.
template <ops::Fp8Format kA, ops::Fp8Format kB>
__device__ inline void MultiplyAddWidened(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint32_t b = half == 0 ? b0 : b1;
    const uint32_t of_a[4] = {WidenTwo<kA>(a[2 * half], 0), WidenTwo<kA>(a[2 * half + 1], 0),
                              WidenTwo<kA>(a[2 * half], 1), WidenTwo<kA>(a[2 * half + 1], 1)};
    MultiplyAdd<Half>(c, of_a, WidenTwo<kB>(b, 0), WidenTwo<kB>(b, 1));
  }
}

#ifdef TWOFOLD_EMULATED_CUDA

namespace emulated_mma {

template <ops::Fp8Format kA, ops::Fp8Format kB>
void MultiplyAddCodes(void* const* lanes, int) {
  static constexpr auto kOfA = ops::rules::Fp8Table(kA), kOfB = ops::rules::Fp8Table(kB);
  float a[16][32], b[32][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const auto& of = *static_cast<const Fragments*>(lanes[lane]);
    const int g = lane / 4, q = lane % 4 * 4;
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 4; ++r) a[g + r % 2 * 8][q + r / 2 * 16 + i] = kOfA[of.a[r] >> (8 * i) & 0xffu];
      for (int r = 0; r < 2; ++r) b[q + r * 16 + i][g] = kOfB[of.b[r] >> (8 * i) & 0xffu];
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < 32; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += a[row][k] * b[k][column];
    }
    for (int column = 0; column < 8; ++column) {
      static_cast<const Fragments*>(lanes[row % 8 * 4 + column / 2])->c[row / 8 * 2 + column % 2] += sums[column];
    }
  }
}

}  // namespace emulated_mma

template <ops::Fp8Format kA, ops::Fp8Format kB>
void MultiplyAddFp8(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated_mma::Fragments mine = {c, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  emulated::WarpTogether(kAllLanes, &mine, emulated_mma::MultiplyAddCodes<kA, kB>);
}

#elif __CUDA_ARCH__ >= 890 && __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1204

// Products are exact; sums keep as many bits as the GPU's tensor cores do.
template <ops::Fp8Format kA, ops::Fp8Format kB>
__device__ inline void MultiplyAddFp8(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
#define TWOFOLD_MULTIPLY_ADD(types)                                                   \
  asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." types                         \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
  constexpr bool kWideA = kA == ops::Fp8Format::kE5M2, kWideB = kB == ops::Fp8Format::kE5M2;
  if constexpr (!kWideA && !kWideB) {
    TWOFOLD_MULTIPLY_ADD("e4m3.e4m3");
  } else if constexpr (!kWideA) {
    TWOFOLD_MULTIPLY_ADD("e4m3.e5m2");
  } else if constexpr (!kWideB) {
    TWOFOLD_MULTIPLY_ADD("e5m2.e4m3");
  } else {
    TWOFOLD_MULTIPLY_ADD("e5m2.e5m2");
  }
#undef TWOFOLD_MULTIPLY_ADD
}

#else  // GPUs without the instruction

template <ops::Fp8Format kA, ops::Fp8Format kB>
__device__ inline void MultiplyAddFp8(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  MultiplyAddWidened<kA, kB>(c, a, b0, b1);
}

#endif

}  // namespace twofold::cuda
