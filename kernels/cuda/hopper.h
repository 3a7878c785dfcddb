// Hopper's asynchronous instructions (compute capability 9.0, compiled for sm_90a alone): products of a warp group on
// tensor cores, copies of tiles by the tensor memory accelerator (TMA), and the barriers that order them. For .cu files
// only; only this file, mma.h and numbers.h contain PTX. Section names are those of the PTX ISA 8.x.
//
// A warp group is four warps, 128 threads, whose first warp's number is a multiple of 4. Functions marked "warp group"
// must be called by all of its threads at the same place.
//
// Two proxies. TMA copies and products access shared memory through the async proxy, loads and stores of threads
// through the generic one (PTX ISA, "Memory Consistency Model", "Proxies"). What one wrote, the other may read only
// after a fence.proxy.async. A wait for the phase of a barrier that a TMA copy completes needs no fence: products and
// ordinary loads that follow it see the copied bytes.
//
// Only code for sm_90a, and the emulation, have the functions of a device: TWOFOLD_HAS_HOPPER is defined there, and a
// kernel's body stands behind it. What runs on the host is always there.
//
// The emulation has the same functions. Times are as adverse as the manual allows: a TMA copy and a product may be done
// as late as the wait for it, and a product then reads its operands, in registers as well, as they are then.
#pragma once

#include <cuda.h>  // types only: the driver's function is found at run time; the emulation's has Hopper's instructions

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/base/strings.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/numbers.h"

#if defined(TWOFOLD_EMULATED_CUDA) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TWOFOLD_HAS_HOPPER
#endif

namespace twofold::cuda {

inline constexpr int kWarpGroup = 128;  // threads

// ---- Addresses ----

// The functions below name places in shared memory by their 32-bit address in the shared window (PTX ISA, "State
// Spaces"). Swizzling permutes by the bits of this address, so that a pattern of 1024 bytes begins at a multiple of
// 1024. DynamicShared is aligned to 128 bytes only; the emulation gives it an address that is no multiple of 1024.
//
//   uint32_t SharedWindow(const void* in_shared_memory);

// ---- Matrices in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix
// Descriptor Format") ----

// Describes a matrix of 16-bit elements with the 128-byte swizzle: a row of the pattern is 64 elements, 128 bytes, and
// eight rows follow each other, 1024 bytes. The 16-byte chunk c of row r of the pattern is at chunk c ^ (r % 8).
//   bits 0-13   address / 16, of an address below 2^18
//   bits 16-29  leading_bytes / 16
//   bits 32-45  stride_bytes / 16
//   bits 49-51  base offset: 0, because patterns begin at multiples of 1024
//   bits 62-63  1: 128-byte swizzle (0: none, 2: 64 bytes, 3: 32 bytes)
// K-major (rows of the pattern are rows of A, or columns of B, and run along k): stride_bytes is from eight rows to the
// next eight; leading_bytes is not used. A product takes 16 elements, 32 bytes, of each row, from `address` on: the
// next 16 are 32 bytes further.
// MN-major (rows of the pattern are values of k, and run along the 64 columns of B): stride_bytes is from eight values
// of k to the next eight; leading_bytes is from 64 columns to the next 64.
__host__ __device__ constexpr uint64_t SwizzledMatrix(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes) {
  return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{(leading_bytes & 0x3ffff) >> 4} << 16 |
         uint64_t{(stride_bytes & 0x3ffff) >> 4} << 32 | uint64_t{1} << 62;
}

// ---- Products (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", "wgmma.mma_async"): warp group ----
//
//   template <class T, int N> void MultiplyShared(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool add);
//     N: 128. d[64, N] = a[64, 16] * b[16, N] (+ d if `add`). a and b: descriptors of K-major matrices in shared
//     memory; b holds N rows of k.
//   template <class T, int N> void MultiplyRegisters(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b,
//                                                    bool add);
//     N: 64 or 128. The same; a is in registers, and b is MN-major: it holds 16 rows of N columns.
//
// T: Bf16 or Half. Products and sums are in f32. `add` is the same in all threads.
// Fragments ("Register Fragments and Shared Memory Matrix Layouts", "Matrix fragments for wgmma.mma_async.m64nNk16").
// In lane l of warp w of the group, with g = l / 4 and p = 2 * (l % 4):
//   d[n][2 * h + i]: row 16 w + 8 h + g, column 8 n + p + i
//   a[0]: row 16 w + g, columns p and p + 1   a[1]: row 16 w + g + 8   a[2]: columns p + 8 and p + 9   a[3]: both
// which are those of mma.h in each warp, with its 16 rows.
//
// Products are asynchronous: d, a and the matrices in shared memory must be left alone until WaitForProducts. Products
// with the same d and shape may follow each other without a wait.
//
//   void FenceProducts();    "wgmma.fence": before the first product, and wherever threads accessed d or a in between
//                            (except for products with the same d and shape that follow each other)
//   void CommitProducts();   "wgmma.commit_group": the products since the last commit form a group
//   template <int kGroups> void WaitForProducts();
//                            "wgmma.wait_group": waits until at most the kGroups newest groups are in flight
//   template <int N> void Keep(float (&d)[N][4]);
//                            no instruction. The compiler does not know that a wait changes d: what reads or writes d
//                            stays behind a Keep that follows the wait (or before one that precedes the first product)
//
// ---- Barriers in shared memory (PTX ISA, "Parallel Synchronization and Communication Instructions", "mbarrier"):
// 8 bytes, aligned to 8 ----
//
// The current phase of a barrier is complete when its arrivals have all been made, and as many bytes copied as were
// announced; then the next phase begins, with the same number of arrivals. The first phase has parity 0, the next 1,
// and so on in turn. Arrivals and bytes of a phase are at most 2^20 - 1.
//
//   void InitBarrier(uint32_t barrier, int arrivals);     "mbarrier.init", by one thread
//   void FenceBarrierInit();                              "fence.mbarrier_init.release.cluster" and
//                                                         "fence.proxy.async": by the same thread, before a
//                                                         __syncthreads after which others use the barriers
//   void Arrive(uint32_t barrier);                        "mbarrier.arrive", counts 1, release
//   void ArriveAndExpect(uint32_t barrier, int bytes);    "mbarrier.arrive.expect_tx": announces bytes, then counts 1
//   void WaitForPhase(uint32_t barrier, int parity);      "mbarrier.try_wait.parity", repeated, acquire: until the
//                                                         phase of this parity is complete. That is at once if the
//                                                         current phase has the other parity, as with parity 1 on a
//                                                         new barrier. A GPU gives up after 2^26 tries, each of which
//                                                         it may suspend for a while: after a second at least, perhaps
//                                                         minutes. The error is that of an illegal address
//                                                         (cudaErrorIllegalAddress).
//
// ---- Copies of tiles (PTX ISA, "Data Movement and Conversion Instructions", "cp.async.bulk.tensor", "Tensors") ----
//
// A tensor of 16-bit elements in global memory with three dimensions, the innermost, whose elements are contiguous,
// first.
struct TiledTensor {
  const void* data = nullptr;  // aligned to 16 bytes
  uint64_t sizes[3] = {};      // elements, at least 1
  uint64_t strides[2] = {};    // bytes from one index to the next of dimensions 1 and 2; multiples of 16, below 2^40
  uint32_t box[3] = {};        // elements of a tile, at most 256; box[0] is 64, so that a row is 128 bytes
};
//   struct TensorMap;                                     128 bytes, aligned to 64 or more; a kernel gets it as, or in,
//                                                         a parameter `const __grid_constant__`
//   TensorMap Encode(const TiledTensor& t);               on the host: "cuTensorMapEncodeTiled", with 128-byte swizzle,
//                                                         no interleaving, and zeros for elements outside the tensor.
//                                                         Throws CudaError.
//   void CopyTile(uint32_t to, const TensorMap& map, int c0, int c1, int c2, uint32_t barrier);
//     "cp.async.bulk.tensor.3d", by one thread: starts copying the box at these coordinates (elements, may be outside
//     of the tensor) to shared memory at `to`, a multiple of 1024. The box's elements follow each other as in the
//     tensor, innermost first, without gaps, and the 16-byte chunk c of its 128-byte row r is at chunk c ^ (r % 8).
//     When all is written it counts the box's bytes (those outside of the tensor as well) on the barrier.
//
// ---- Named barriers (PTX ISA, "bar"): id 1 to 15 (0 is __syncthreads); threads: all that arrive or wait, a multiple
// of 32 ----
//
//   void WaitAtBarrier(int id, int threads);              "bar.sync": whole warps
//   void ArriveAtBarrier(int id, int threads);            "bar.arrive": whole warps; does not wait
//
// ---- Registers (PTX ISA, "Miscellaneous Instructions", "setmaxnreg"): warp group ----
//
//   template <int kRegisters> void RaiseRegisters();      "setmaxnreg.inc": waits until they are free
//   template <int kRegisters> void LowerRegisters();      "setmaxnreg.dec"
//     kRegisters: of each thread from here on, a multiple of 8, from 24 to 256. The kernel needs __launch_bounds__; a
//     block begins with the registers per thread that it was compiled for, and together its warps never have more.

#ifndef TWOFOLD_EMULATED_CUDA

struct TensorMap {
  CUtensorMap encoded;
};
inline TensorMap Encode(const TiledTensor& t) {
  static const auto encode = [] {  // of the driver, which the program is not linked with
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result));
#else
    Check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result));
#endif
    if (result != cudaDriverEntryPointSuccess || found == nullptr)
      throw CudaError("the driver has no cuTensorMapEncodeTiled (CUDA 12.0 or newer); use cuda.attention: OWN");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  constexpr cuuint32_t kEveryElement[3] = {1, 1, 1};
  TensorMap map;
  const CUresult error =
      encode(&map.encoded, CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, const_cast<void*>(t.data), t.sizes, t.strides, t.box,
             kEveryElement, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (error != CUDA_SUCCESS) {
    throw CudaError(StrCat("cuTensorMapEncodeTiled returned error ", static_cast<int>(error), " for sizes ", t.sizes[0],
                           ", ", t.sizes[1], ", ", t.sizes[2], ", strides of ", t.strides[0], " and ", t.strides[1],
                           " bytes, tiles of ", t.box[0], " x ", t.box[1], " x ", t.box[2], ", address modulo 16: ",
                           reinterpret_cast<uintptr_t>(t.data) % 16, "; use cuda.attention: OWN"));
  }
  return map;
}

// Other architectures do not have the instructions.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline uint32_t SharedWindow(const void* in_shared_memory) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared_memory));
}

#define TWOFOLD_4_REGISTERS(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define TWOFOLD_REGISTERS(n)                                                                                  \
  TWOFOLD_4_REGISTERS(n), TWOFOLD_4_REGISTERS(n + 1), TWOFOLD_4_REGISTERS(n + 2), TWOFOLD_4_REGISTERS(n + 3), \
      TWOFOLD_4_REGISTERS(n + 4), TWOFOLD_4_REGISTERS(n + 5), TWOFOLD_4_REGISTERS(n + 6), TWOFOLD_4_REGISTERS(n + 7)
#define TWOFOLD_SHARED_BY_SHARED_128(type)                                                \
  asm volatile(                                                                           \
      "{.reg .pred p; setp.ne.b32 p, %66, 0; "                                            \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                        \
      " "                                                                                 \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "%64, %65, p, 1, 1, 0, 0;}"                                                         \
      : TWOFOLD_REGISTERS(0), TWOFOLD_REGISTERS(8)                                        \
      : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define TWOFOLD_REGISTERS_BY_SHARED_64(type)                                              \
  asm volatile(                                                                           \
      "{.reg .pred p; setp.ne.b32 p, %37, 0; "                                            \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                         \
      " "                                                                                 \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, " \
      "{%32, %33, %34, %35}, %36, p, 1, 1, 1;}"                                           \
      : TWOFOLD_REGISTERS(0)                                                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))
#define TWOFOLD_REGISTERS_BY_SHARED_128(type)                                             \
  asm volatile(                                                                           \
      "{.reg .pred p; setp.ne.b32 p, %69, 0; "                                            \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                        \
      " "                                                                                 \
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "  \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "  \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, " \
      "{%64, %65, %66, %67}, %68, p, 1, 1, 1;}"                                           \
      : TWOFOLD_REGISTERS(0), TWOFOLD_REGISTERS(8)                                        \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(add)))

template <class T, int N>
__device__ inline void MultiplyShared(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool add) {
  static_assert(N == 128);
  if constexpr (std::is_same_v<T, Bf16>) {
    TWOFOLD_SHARED_BY_SHARED_128("bf16");
  } else {
    TWOFOLD_SHARED_BY_SHARED_128("f16");
  }
}
template <class T, int N>
__device__ inline void MultiplyRegisters(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, Bf16>) {
    TWOFOLD_REGISTERS_BY_SHARED_64("bf16");
  } else if constexpr (N == 64) {
    TWOFOLD_REGISTERS_BY_SHARED_64("f16");
  } else if constexpr (std::is_same_v<T, Bf16>) {
    TWOFOLD_REGISTERS_BY_SHARED_128("bf16");
  } else {
    TWOFOLD_REGISTERS_BY_SHARED_128("f16");
  }
}
#undef TWOFOLD_REGISTERS_BY_SHARED_128
#undef TWOFOLD_REGISTERS_BY_SHARED_64
#undef TWOFOLD_SHARED_BY_SHARED_128
#undef TWOFOLD_REGISTERS
#undef TWOFOLD_4_REGISTERS

__device__ inline void FenceProducts() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CommitProducts() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kGroups>
__device__ inline void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
template <int N>
__device__ inline void Keep(float (&d)[N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+f"(d[n][i])::"memory");
  }
}

__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void ArriveAndExpect(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ inline void WaitForPhase(uint32_t barrier, int parity) {
  constexpr uint32_t kMostTries = 1u << 26;  // a second or more: an error of the kernel, which would wait forever
  for (uint32_t tries = 0;; ++tries) {
    int complete;
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.b32 %0, 1, 0, p;}"
        : "=r"(complete)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (complete != 0) return;
    // Not a trap: with one, ptxas spills, and puts the products of the kernel in sequence.
    if (tries == kMostTries) asm volatile("st.global.u32 [%0], %1;" ::"l"(uint64_t{0}), "r"(0) : "memory");
  }
}

__device__ inline void CopyTile(uint32_t to, const TensorMap& map, int c0, int c1, int c2, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5}], [%2];" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2)
      : "memory");
}

__device__ inline void WaitAtBarrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void ArriveAtBarrier(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

template <int kRegisters>
__device__ inline void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

#else  // emulated: kernels/cuda/emulated/hopper.h says what is an error

// A note about kernels that have a TensorMap as an argument, where they are defined: in the rest of the file.
#pragma GCC diagnostic ignored "-Wpsabi"
struct alignas(64) TensorMap {
  emulated::Tiles tiles = {};  // of elements of 0 bytes until encoded
  uint64_t unused[7] = {};
};
static_assert(sizeof(TensorMap) == 128);

// Refuses what cuTensorMapEncodeTiled refuses (CUDA Driver API, "Tensor Map Object Management"), and any box[0] but 64.
inline TensorMap Encode(const TiledTensor& t) {
  constexpr uint32_t kElement = 2;  // bytes
  const auto require = [](bool right, const char* what) {
    if (!right) throw CudaError(StrCat("cuTensorMapEncodeTiled: ", what));
  };
  require(t.data != nullptr && reinterpret_cast<uintptr_t>(t.data) % 16 == 0, "the tensor is not aligned to 16 bytes");
  require(t.box[0] == 64, "box[0] is not 64");
  TensorMap map;
  map.tiles.data = t.data;
  map.tiles.element = kElement;
  for (int i = 0; i < 3; ++i) {
    require(t.sizes[i] >= 1 && t.sizes[i] <= uint64_t{1} << 32, "a size is not between 1 and 2^32");
    require(t.box[i] >= 1 && t.box[i] <= 256, "the box is not between 1 and 256");
    map.tiles.sizes[i] = t.sizes[i];
    map.tiles.box[i] = t.box[i];
  }
  for (int i = 0; i < 2; ++i) {
    require(t.strides[i] % 16 == 0, "a stride is not a multiple of 16 bytes");
    require(t.strides[i] < uint64_t{1} << 40, "a stride is not below 2^40");
    map.tiles.strides[i] = t.strides[i];
  }
  return map;
}

inline uint32_t SharedWindow(const void* in_shared_memory) { return emulated::SharedWindow(in_shared_memory); }

template <class T, int N>
void MultiplyShared(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool add) {
  static_assert(N == 128);
  emulated::Multiply({.columns = N,
                      .bf16 = std::is_same_v<T, Bf16>,
                      .b_mn_major = false,
                      .add = add,
                      .a_registers = nullptr,
                      .a = a,
                      .b = b,
                      .d = d[0]});
}
template <class T, int N>
void MultiplyRegisters(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, bool add) {
  static_assert(N == 64 || N == 128);
  emulated::Multiply({.columns = N,
                      .bf16 = std::is_same_v<T, Bf16>,
                      .b_mn_major = true,
                      .add = add,
                      .a_registers = a,
                      .a = 0,
                      .b = b,
                      .d = d[0]});
}
inline void FenceProducts() { emulated::FenceProducts(); }
inline void CommitProducts() { emulated::CommitProducts(); }
template <int kGroups>
void WaitForProducts() {
  emulated::WaitForProducts(kGroups);
}
template <int N>
void Keep(float (&)[N][4]) {}

inline void InitBarrier(uint32_t barrier, int arrivals) { emulated::InitBarrier(barrier, arrivals); }
inline void FenceBarrierInit() { emulated::FenceBarrierInit(); }
inline void Arrive(uint32_t barrier) { emulated::Arrive(barrier); }
inline void ArriveAndExpect(uint32_t barrier, int bytes) { emulated::ArriveAndExpect(barrier, bytes); }
inline void WaitForPhase(uint32_t barrier, int parity) { emulated::WaitForPhase(barrier, parity); }

inline void CopyTile(uint32_t to, const TensorMap& map, int c0, int c1, int c2, uint32_t barrier) {
  emulated::CopyTile(to, map.tiles, {c0, c1, c2}, barrier);
}

inline void WaitAtBarrier(int id, int threads) { emulated::WaitAtBarrier(id, threads); }
inline void ArriveAtBarrier(int id, int threads) { emulated::ArriveAtBarrier(id, threads); }

template <int kRegisters>
void RaiseRegisters() {
  emulated::ChangeRegisters(kRegisters, true);
}
template <int kRegisters>
void LowerRegisters() {
  emulated::ChangeRegisters(kRegisters, false);
}

#endif

}  // namespace twofold::cuda
