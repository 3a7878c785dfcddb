// Loads and stores of several neighbouring elements at once, stored as T, computed in A. For .cu files only.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {

// N elements, the first of which is at a multiple of min(16, N * sizeof(T)) bytes.
template <class T, int N, class A>
__device__ inline void LoadPack(const T* from, A (&to)[N]) {
  constexpr int kEach = std::min<int>(N, kPerLoad<T>);
  static_assert(N % kEach == 0);
#pragma unroll
  for (int k = 0; k < N; k += kEach) {
    const Pack<T, kEach> pack = *reinterpret_cast<const Pack<T, kEach>*>(from + k);
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[k + i] = As<A>(pack.at[i]);
  }
}
template <class T, int N, class A>
__device__ inline void StorePack(T* to, const A (&from)[N]) {
  constexpr int kEach = std::min<int>(N, kPerLoad<T>);
  static_assert(N % kEach == 0);
#pragma unroll
  for (int k = 0; k < N; k += kEach) {
    Pack<T, kEach> pack;
#pragma unroll
    for (int i = 0; i < kEach; ++i) Store(&pack.at[i], from[k + i]);
    *reinterpret_cast<Pack<T, kEach>*>(to + k) = pack;
  }
}

// The same for N elements of a row: all of them if `whole`, else the first `count`, one by one; the others become
// `fill`.
template <class T, int N, class A>
__device__ inline void LoadSome(const T* from, bool whole, int64_t count, A (&to)[N], A fill = A(0)) {
  if (whole) return LoadPack(from, to);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < count ? As<A>(from[i]) : fill;
}
template <class T, int N, class A>
__device__ inline void StoreSome(T* to, bool whole, int64_t count, const A (&from)[N]) {
  if (whole) return StorePack(to, from);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (i < count) Store(to + i, from[i]);
  }
}

// Four words of four bytes, as a matrix of bytes with a word in a row: transposes it.
__device__ inline void TransposeBytes(uint32_t (&w)[4]) {
  const uint32_t low0 = __byte_perm(w[0], w[1], 0x5140), low1 = __byte_perm(w[2], w[3], 0x5140),
                 high0 = __byte_perm(w[0], w[1], 0x7362), high1 = __byte_perm(w[2], w[3], 0x7362);
  w[0] = __byte_perm(low0, low1, 0x5410), w[1] = __byte_perm(low0, low1, 0x7632);
  w[2] = __byte_perm(high0, high1, 0x5410), w[3] = __byte_perm(high0, high1, 0x7632);
}

// Whether packs of `pack` elements of these tensors may be loaded, if rows (or pieces) begin at multiples of `row`
// elements. Empty tensors are ignored.
inline bool PacksFit(int64_t pack, int64_t row, std::initializer_list<const Tensor*> tensors) {
  if (row % pack != 0) return false;
  return std::all_of(tensors.begin(), tensors.end(), [pack](const Tensor* t) {
    return t->empty() ||
           t->address() % static_cast<Address>(std::min<int64_t>(16, pack * ElementSize(t->dtype()))) == 0;
  });
}

}  // namespace twofold::cuda
