// Kernels that pass once over elements or rows: several loads in flight at a time, then arithmetic and stores. For .cu
// files only.
//
// The operation on N neighbouring elements is a function object with
//     template <int N> struct Loaded;                                        the values it reads, as stored
//     template <int N> Loaded<N> Load(int64_t first) const;                  (int64_t row, int64_t column) for rows
//     template <int N> void Finish(int64_t first, const Loaded<N>&) const;
// N is 1, or the PackOf its types if all of its tensors fit. It may write where it reads: one thread loads and stores
// an element.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {

// The number of elements that fit 16 bytes of the widest type.
template <class... T>
constexpr int PackOf = static_cast<int>(16 / std::max({sizeof(T)...}));

// N elements as stored.
template <class T, int N>
struct Raw {
  static constexpr int kEach = std::min<int>(N, kPerLoad<T>);
  Pack<T, kEach> packs[N / kEach];
  __device__ const T& operator[](int i) const { return packs[i / kEach].at[i % kEach]; }
};
// The first element is at a multiple of min(16, N * sizeof(T)) bytes.
template <int N, class T>
__device__ inline Raw<T, N> LoadRaw(const T* from) {
  Raw<T, N> raw;
#pragma unroll
  for (int k = 0; k < N / Raw<T, N>::kEach; ++k)
    raw.packs[k] = reinterpret_cast<const Pack<T, Raw<T, N>::kEach>*>(from)[k];
  return raw;
}

// The base of an operation that reads nothing.
struct LoadsNothing {
  template <int N>
  struct Loaded {};
  template <int N>
  __device__ Loaded<N> Load(int64_t) const {
    return {};
  }
};

inline constexpr int kSweepBlock = 256;

template <int N, int kUnroll, class F>
__global__ void __launch_bounds__(kSweepBlock) SweepElements(F f, int64_t n) {
  const int64_t packs = n / N, begin = int64_t{blockIdx.x} * (kSweepBlock * kUnroll) + threadIdx.x;
  typename F::template Loaded<N> loaded[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (begin + u * kSweepBlock < packs) loaded[u] = f.template Load<N>((begin + u * kSweepBlock) * N);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (begin + u * kSweepBlock < packs) f.template Finish<N>((begin + u * kSweepBlock) * N, loaded[u]);
  }
  if constexpr (N > 1) {
    const int64_t rest = packs * N + threadIdx.x;  // fewer than a pack
    if (blockIdx.x == 0 && rest < n) f.template Finish<1>(rest, f.template Load<1>(rest));
  }
}

// Processes all n elements, N at a time if `packs`. kUnroll: maximum number of packs per thread.
template <int N, int kUnroll = 2, class F>
void Sweep(const F& f, int64_t n, bool packs, const Context& c) {
  const auto blocks = [&](int64_t pieces, int unroll) {
    return static_cast<unsigned>(CeilDiv(std::max<int64_t>(pieces, 1), int64_t{kSweepBlock} * unroll));
  };
  if (n == 0) return;
  if (packs && N > 1)
    return Launch(SweepElements<N, kUnroll, F>, blocks(n / N, kUnroll), kSweepBlock, 0, c.stream, f, n);
  constexpr int kSingles = 4;
  Launch(SweepElements<1, kSingles, F>, blocks(n, kSingles), kSweepBlock, 0, c.stream, f, n);
}

// Processes rows from first_row on: `pieces` pieces, per_row of them in each row.
template <int N, int kUnroll, class F>
__global__ void __launch_bounds__(kSweepBlock)
    SweepRowPieces(F f, int64_t first_row, uint32_t pieces, uint32_t per_row) {
  const uint32_t begin = blockIdx.x * (kSweepBlock * kUnroll) + threadIdx.x;
  typename F::template Loaded<N> loaded[kUnroll];
  uint32_t row[kUnroll], column[kUnroll];
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const uint32_t piece = begin + u * kSweepBlock;
    row[u] = piece / per_row;
    column[u] = (piece - row[u] * per_row) * N;
    if (piece < pieces) loaded[u] = f.template Load<N>(first_row + row[u], column[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (begin + u * kSweepBlock < pieces) f.template Finish<N>(first_row + row[u], column[u], loaded[u]);
  }
}

// Processes all rows * columns elements. Their number may exceed 2^31, but the number of columns may not.
template <int N, int kUnroll = 2, class F>
void SweepRows(const F& f, int64_t rows, int64_t columns, bool packs, const Context& c) {
  if (rows == 0 || columns == 0) return;
  const bool wide = packs && N > 1;
  const int64_t per_row = wide ? columns / N : columns, most_rows = (int64_t{1} << 31) / per_row;
  TWOFOLD_CHECK_GT(most_rows, 0);
  for (int64_t row = 0; row < rows; row += most_rows) {
    const int64_t pieces = std::min(most_rows, rows - row) * per_row;
    constexpr int kSingles = 4;
    const auto blocks = static_cast<unsigned>(CeilDiv(pieces, int64_t{kSweepBlock} * (wide ? kUnroll : kSingles)));
    const auto kernel = wide ? SweepRowPieces<N, kUnroll, F> : SweepRowPieces<1, kSingles, F>;
    Launch(kernel, blocks, kSweepBlock, 0, c.stream, f, row, pieces, per_row);
  }
}

// ---- out = body(in) and out = body(a, b), elementwise, computed in the compute type of out ----

struct NoInput {};

template <class Out, class Body, class InA, class InB = NoInput>
struct Mapped {
  Out* out;
  Body body;
  const InA* a;
  const InB* b = nullptr;
  static constexpr bool kTwo = !std::is_same_v<InB, NoInput>;
  template <int N>
  struct Loaded {
    Raw<InA, N> a;
    Raw<InB, N> b;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    Loaded<N> loaded;
    loaded.a = LoadRaw<N>(a + first);
    if constexpr (kTwo) loaded.b = LoadRaw<N>(b + first);
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    using A = Wide<Out>;
    A y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      if constexpr (kTwo)
        y[i] = body(As<A>(loaded.a[i]), As<A>(loaded.b[i]));
      else
        y[i] = body(As<A>(loaded.a[i]));
    }
    StorePack(out + first, y);
  }
};

template <class Out, class In, class Body>
void Map(const Tensor& out, const Body& body, const Tensor& in, const Context& c) {
  constexpr int kN = PackOf<Out, In>;
  Sweep<kN, 4>(Mapped<Out, Body, In>{At<Out>(out), body, At<In>(in)}, out.numel(), PacksFit(kN, kN, {&out, &in}), c);
}
template <class Out, class InA, class InB, class Body>
void Map(const Tensor& out, const Body& body, const Tensor& a, const Tensor& b, const Context& c) {
  constexpr int kN = PackOf<Out, InA, InB>;
  const Mapped<Out, Body, InA, InB> f{At<Out>(out), body, At<InA>(a), At<InB>(b)};
  Sweep<kN, 2>(f, out.numel(), PacksFit(kN, kN, {&out, &a, &b}), c);
}

}  // namespace twofold::cuda
