// Tiles for attention on tensor cores: rows of heads in shared memory, their products with results in registers, and
// the write-back of results. For attention_*.cu only.
//
// A warp's results c[M][N] are 16 M rows and 8 N columns, stored as fragments c of mma.h. In a lane with g = lane / 4
// and p = 2 * (lane % 4), c[m][n][2 * h + i] is row 16 m + 8 h + g, column 8 n + p + i. Loops are unrolled so that M, N
// and all indices are constants and the fragments stay in registers.
#pragma once

#include "kernels/cuda/attention.h"
#include "kernels/cuda/mma.h"

namespace twofold::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;

__device__ inline int Lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int WarpOfBlock() { return static_cast<int>(threadIdx.x) / kWarp; }
// The first row and the first column of a lane.
__device__ inline int RowOfLane() { return Lane() / 4; }
__device__ inline int ColumnOfLane() { return Lane() % 4 * 2; }

// Rows of D elements in shared memory. The eight rows that one access of a warp reads at one column are in different
// banks: either rows are an odd number of 16-byte chunks apart, or, if `permuted`, the chunks are permuted within a
// row. The first layout needs fewer registers, the second no extra memory.
template <int D, bool permuted = false>
struct SharedRows {
  static_assert(D % 16 == 0 && (!permuted || D % 64 == 0));
  static constexpr bool kPermuted = permuted;
  static constexpr int kColumns = D, kRow = permuted ? D : D + 8;  // elements
  static constexpr int kChunks = D / 8;
  // The offset of chunk even + of_lane of row eights + lanes_row. `eights` (a multiple of 8) and `even` (a multiple of
  // 2) are constants in unrolled loops; of_lane is 0 or 1, and lanes_row depends on the lane. So all but one operation
  // is done only once.
  static __device__ int At(int eights, int lanes_row, int even, int of_lane) {
    if (!kPermuted) return eights * kRow + even * 8 + (lanes_row * kRow + of_lane * 8);
    return eights * kRow + even / 8 * 64 + lanes_row * kRow + ((even % 8 * 8) ^ ((of_lane ^ (lanes_row % 8)) * 8));
  }
  static __device__ int At(int row, int chunk) { return row * kRow + (kPermuted ? chunk ^ (row % 8) : chunk) * 8; }
};

// Starts copying `kRows` rows to shared memory, with zeros for rows from `rows` on and for columns from `dim` on. All
// threads of the block must call it. A thread's place is computed anew each time: no registers are left to keep it
// between tiles.
template <class S, int kRows, int kThreads, class T>
__device__ inline void CopyRows(T* to, const T* from, int stride, int rows, int dim) {
  constexpr int kLanes = S::kChunks % 8 == 0 ? 8 : 4, kPass = kThreads / kLanes;  // lanes per row; rows per pass
  static_assert((kRows % kPass == 0 || kRows < kPass) && S::kChunks % kLanes == 0);
  const int thread = MadeAnew(static_cast<int>(threadIdx.x));
  int row = thread / kLanes;
  if (kRows < kPass && row >= kRows) return;
  const int chunk = thread % kLanes, at = S::At(row, chunk);
  from += row * stride + chunk * 8;
#pragma unroll
  for (int pass = 0; pass < kRows; pass += kPass) {
#pragma unroll
    for (int more = 0; more < S::kChunks; more += kLanes) {
      CopyAsync(to, at + pass * S::kRow + more * 8, from + more * 8, row < rows && (chunk + more) * 8 < dim);
    }
    row += kPass;
    from += kPass * stride;
  }
}

// Permuted chunk offsets are recomputed for each product. Keeping them between products would need registers that are
// not available.
template <class S>
__device__ inline int LaneFor() {
  return S::kPermuted ? MadeAnew(Lane()) : Lane();
}

// Loads the fragments of columns [16 k, 16 k + 16) of 16 M rows.
template <class S, class T, int M>
__device__ inline void LoadColumns(uint32_t (&a)[M][4], const T* x, int k, int lane) {
#pragma unroll
  for (int m = 0; m < M; ++m) LoadMatrices(a[m], x, S::At(16 * m, lane % 16, 2 * k, lane / 16));
}

// c = x y^T: x has 16 M rows, y has 8 N, both of S::kColumns columns. columns(k, lane) returns the fragments of x.
template <class S, class T, int M, int N, class Columns>
__device__ inline void ColumnsByRows(float (&c)[M][N][4], Columns columns, const T* y) {
  static_assert(N % 2 == 0);
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) c[m][n][0] = c[m][n][1] = c[m][n][2] = c[m][n][3] = 0;
  }
  const int lane = LaneFor<S>(), y_row = lane % 8 + lane / 16 * 8, y_chunk = lane / 8 % 2;
#pragma unroll
  for (int k = 0; k < S::kColumns / 16; ++k) {
    const auto& a = columns(k, lane);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      LoadMatrices(b, y, S::At(8 * n, y_row, 2 * k, y_chunk));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        MultiplyAdd<T>(c[m][n], a[m], b[0], b[1]);
        MultiplyAdd<T>(c[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}
// For x in shared memory, and for x in registers.
template <class S, class T, int M, int N>
__device__ inline void RowsByRows(float (&c)[M][N][4], const T* x, const T* y) {
  uint32_t a[M][4];
  ColumnsByRows<S>(
      c,
      [&](int k, int lane) -> const uint32_t(&)[M][4] {
        LoadColumns<S>(a, x, k, lane);
        return a;
      },
      y);
}
template <class S, class T, int M, int N, int K>
__device__ inline void RowsByRows(float (&c)[M][N][4], const uint32_t (&x)[K][M][4], const T* y) {
  static_assert(K == S::kColumns / 16);
  ColumnsByRows<S>(
      c, [&](int k, int) -> const uint32_t(&)[M][4] { return x[k]; }, y);
}

// c += w z: w has 8 K columns and is rounded to T; z has 8 K rows in shared memory, of which 8 N columns from
// 8 * first_chunk on are used.
template <class S, class T, int M, int N, int K>
__device__ inline void WeightsByRows(float (&c)[M][N][4], const float (&w)[M][K][4], const T* z, int first_chunk = 0) {
  static_assert(N % 2 == 0 && K % 2 == 0);
  const int lane = LaneFor<S>();
#pragma unroll
  for (int k = 0; k < K; k += 2) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) a[m][i] = PackTwo<T>(w[m][k + i / 2][i % 2 * 2], w[m][k + i / 2][i % 2 * 2 + 1]);
    }
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(b, z, S::At(8 * k, lane % 16, first_chunk + n, lane / 16));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        MultiplyAdd<T>(c[m][n], a[m], b[0], b[1]);
        MultiplyAdd<T>(c[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// f(m, h, row) for each of a lane's rows.
template <int M, class F>
__device__ inline void ForRowsOfLane(F f) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) f(m, h, 16 * m + 8 * h + RowOfLane());
  }
}

// Sets scores to -infinity in columns for which hides(column, first(row)) is true; `hides` is a comparison.
template <int M, int N, class Compare, class First>
__device__ inline void Hide(float (&scores)[M][N][4], Compare hides, First first) {
  ForRowsOfLane<M>([&](int m, int h, int row) {
    const int from = first(row) - ColumnOfLane();
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (hides(8 * n + i, from)) scores[m][n][2 * h + i] = -INFINITY;
      }
    }
  });
}
struct NotBefore {
  __device__ bool operator()(int column, int first) const { return column >= first; }
};
struct Before {
  __device__ bool operator()(int column, int first) const { return column < first; }
};

// Reductions over the four lanes that share rows; all four get the result.
__device__ inline float MaximumOfRow(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float SumOfRow(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// The softmax of rows of scores that come tile by tile: the largest score so far in each of a lane's rows, and this
// lane's part of the sum of e^(scale * (score - largest)).
template <int M>
struct RunningSoftmax {
  float largest[M][2], sum[M][2];

  __device__ RunningSoftmax() {
#pragma unroll
    for (int m = 0; m < M; ++m) largest[m][0] = largest[m][1] = -INFINITY, sum[m][0] = sum[m][1] = 0;
  }

  // Replaces scores by e^(scale * (score - largest)). Where that shrinks earlier ones it calls rescale(m, h, factor),
  // which must multiply the results of the row by the factor. Every row sees a key in its first tile.
  template <int N, class Rescale>
  __device__ void Take(float (&scores)[M][N][4], float scale_log2e, Rescale rescale) {
    ForRowsOfLane<M>([&](int m, int h, int) {
      float top = largest[m][h];
#pragma unroll
      for (int n = 0; n < N; ++n) top = fmaxf(top, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
      top = MaximumOfRow(top);
      if (__any_sync(kAllLanes, top > largest[m][h])) {  // rare after the first tiles
        const float shrink = ApproximateExp2((largest[m][h] - top) * scale_log2e);
        largest[m][h] = top;
        sum[m][h] *= shrink;
        rescale(m, h, shrink);
      }
      const float shift = top * scale_log2e;
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          scores[m][n][i] = ApproximateExp2(fmaf(scores[m][n][i], scale_log2e, -shift));
          sum[m][h] += scores[m][n][i];
        }
      }
    });
  }
};

// Writes a warp's c times factor: `rows` rows of head (b, h) from `first` on, columns from 8 * first_chunk on. Narrow
// results go through `staging`, so that each store writes 16 bytes; it is 16 M rows of shared memory that no other warp
// reads any more. keep[m][h] is the factor applied to the existing values of wide results that are added to.
template <class S, class T, int M, int N>
__device__ inline void WriteRows(const float (&c)[M][N][4], const float (&factor)[M][2], const float (&keep)[M][2],
                                 const Results<T>& to, int b, int h, int first, int rows, int dim, T* staging,
                                 int first_chunk = 0) {
  if (to.narrow.data != nullptr) {
    __syncwarp();
    ForRowsOfLane<M>([&](int m, int half, int row) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        *reinterpret_cast<uint32_t*>(staging + S::At(row, n) + ColumnOfLane()) =
            PackTwo<T>(c[m][n][2 * half] * factor[m][half], c[m][n][2 * half + 1] * factor[m][half]);
      }
    });
    __syncwarp();
    T* out = to.narrow.At(b, h, first, dim) + 8 * first_chunk;
    for (int i = Lane(); i < 16 * M * N; i += kWarp) {
      const int row = i / N, chunk = i % N;
      if (row < rows && (first_chunk + chunk) * 8 < dim) {
        *reinterpret_cast<uint4*>(out + row * to.narrow.row + chunk * 8) =
            *reinterpret_cast<const uint4*>(staging + S::At(row, chunk));
      }
    }
    return;
  }
  float* out = to.wide.At(b, h, first, dim) + 8 * first_chunk;
  ForRowsOfLane<M>([&](int m, int half, int row) {
    if (row >= rows) return;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      if ((first_chunk + n) * 8 >= dim) return;
      auto* at = reinterpret_cast<float2*>(out + row * to.wide.row + 8 * n + ColumnOfLane());
      float2 x = {c[m][n][2 * half] * factor[m][half], c[m][n][2 * half + 1] * factor[m][half]};
      if (to.add) {
        const float2 there = *at;
        x.x += there.x * keep[m][half];
        x.y += there.y * keep[m][half];
      }
      *at = x;
    }
  });
}

// Writes a warp's results of forward attention, not yet divided by the sums of `softmax`, and their log-sum-exps.
// `staging` is that of WriteRows.
template <class S, class T, int M, int N>
__device__ inline void FinishForward(const ForwardOperands<T>& o, const float (&results)[M][N][4],
                                     const RunningSoftmax<M>& softmax, int b, int h, int first_of_warp, T* staging) {
  const AttentionSizes<T>& s = o.sizes;
  float factor[M][2], keep[M][2];
  ForRowsOfLane<M>([&](int m, int half, int row) {
    const float sum = SumOfRow(softmax.sum[m][half]);
    float of_these = softmax.largest[m][half] * s.scale + logf(sum);  // -infinity if there are no keys
    factor[m][half] = sum > 0 ? 1 / sum : 0;
    keep[m][half] = 0;
    float* const lse = first_of_warp + row < s.queries ? o.lse.At(b, h, first_of_warp + row) : nullptr;
    if (o.out.add && lse != nullptr) keep[m][half] = MakeRoom(*lse, of_these, factor[m][half]);
    __syncwarp();  // all four lanes of a row have read
    if (lse != nullptr && Lane() % 4 == 0) *lse = of_these;
  });
  WriteRows<S>(results, factor, keep, o.out, b, h, first_of_warp, s.queries - first_of_warp, s.dim, staging);
}

// Calls f.template operator()<D>() for the smallest compiled D that is at least `dim`.
template <class F>
void ForDim(int dim, F&& f) {
  if (dim <= 64) return f.template operator()<64>();
  if (dim <= 96) return f.template operator()<96>();
  if (dim <= 128) return f.template operator()<128>();
  TWOFOLD_CHECK(dim <= kMostDim, "a head that fits");
  f.template operator()<256>();
}

}  // namespace twofold::cuda
