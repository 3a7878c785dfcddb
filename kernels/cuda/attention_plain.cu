// Attention for all types, sizes and addresses: the algorithm of the tensor-core kernels (attention_forward.cu,
// attention_backward.cu) with tiles of 32 queries x 32 keys. Operands pass through shared memory in A, the compute
// type. Nothing is rounded to T before the end.
//
// A block of eight warps computes 32 rows of results. A warp has four rows; each of its lanes has one column of their
// scores and four columns of their results. Heads wider than 128 are processed 128 columns at a time, and the scores
// are recomputed each time.
#include "kernels/cuda/attention.h"
#include "kernels/cuda/reduce.h"

namespace twofold::cuda {
namespace {

constexpr int kTile = 32, kWarps = 8, kThreads = kWarps * kWarp, kRows = kTile / kWarps;
constexpr int kColumns = 128, kOfLane = kColumns / kWarp;  // of results; kOfLane: per lane
constexpr int kDepth = 64;                                 // part of the inner dimension in shared memory at a time

// Shared memory. `w` is indexed by column and row of the scores.
template <class A>
struct Memory {
  static constexpr int kWeights = kTile * (kTile + 1), kOperands = kTile * (2 * kDepth + 1);
  static_assert(kOperands >= kTile * kColumns);
  A *operands, *w, *w2;
  __device__ Memory() : operands(DynamicShared<A>()), w(operands + kOperands), w2(w + kWeights) {}
  static constexpr size_t kBytes = (kOperands + 2 * kWeights) * sizeof(A);
};

// Rows of a head; the first `rows` exist.
template <class T>
struct Head {
  const T* data;
  int64_t stride;
  int rows;
  __device__ Head(const HeadRows<const T>& of, int b, int h, int first, int end, int dim)
      : data(of.At(b, h, first, dim)), stride(of.row), rows(end - first) {}
  template <class A>
  __device__ A At(int row, int column, int dim) const {
    return row < rows && column < dim ? As<A>(data[row * stride + column]) : A(0);
  }
};

__device__ inline int LaneOf() { return static_cast<int>(threadIdx.x) % kWarp; }
// first row of the warp in the tile
__device__ inline int FirstRow() { return static_cast<int>(threadIdx.x) / kWarp * kRows; }

// dots[i] = row FirstRow() + i of x . row LaneOf() of y
template <class T, class A>
__device__ void Dots(A (&dots)[kRows], const Head<T>& x, const Head<T>& y, int dim, const Memory<A>& memory) {
  A* const of_x = memory.operands;
  A* const of_y = of_x + kTile * kDepth;  // rows are kDepth + 1 apart
  for (A& dot : dots) dot = 0;
  for (int first = 0; first < dim; first += kDepth) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
      const int row = i / kDepth, column = i % kDepth;
      of_x[i] = x.template At<A>(row, first + column, dim);
      of_y[row * (kDepth + 1) + column] = y.template At<A>(row, first + column, dim);
    }
    __syncthreads();
    for (int k = 0; k < min(kDepth, dim - first); ++k) {
      const A other = of_y[LaneOf() * (kDepth + 1) + k];
#pragma unroll
      for (int i = 0; i < kRows; ++i) dots[i] += of_x[(FirstRow() + i) * kDepth + k] * other;
    }
  }
}

// The entry of w for one of a lane's scores.
template <class A>
__device__ A& Weight(A* w, int i) {
  return w[LaneOf() * (kTile + 1) + FirstRow() + i];
}

// results[i][n] += sum over the tile's columns of w * column first + LaneOf() + 32 n of z's rows. All threads must have
// written to w.
template <class T, class A>
__device__ void AddWeighted(A (&results)[kRows][kOfLane], const A* w, const Head<T>& z, int first, int dim,
                            const Memory<A>& memory) {
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kColumns; i += kThreads) {
    memory.operands[i] = z.template At<A>(i / kColumns, first + i % kColumns, dim);
  }
  __syncthreads();
  for (int j = 0; j < kTile; ++j) {
#pragma unroll
    for (int n = 0; n < kOfLane; ++n) {
      if (first + kWarp * n >= dim) break;
      const A other = memory.operands[j * kColumns + LaneOf() + kWarp * n];
#pragma unroll
      for (int i = 0; i < kRows; ++i) results[i][n] += w[j * (kTile + 1) + FirstRow() + i] * other;
    }
  }
}

template <class A>
__device__ void Clear(A (&results)[kRows][kOfLane]) {
  for (auto& row : results) {
    for (A& x : row) x = 0;
  }
}

// Writes `rows` rows of head (b, h) from `first` on: results times factor, plus keep times the existing values if `to`
// adds.
template <class T, class A>
__device__ void WriteRows(const A (&results)[kRows][kOfLane], const A (&factor)[kRows], const A (&keep)[kRows],
                          const Results<T>& to, int b, int h, int first, int rows, int first_column, int dim) {
  for (int i = 0; i < kRows; ++i) {
    const int row = FirstRow() + i;
    if (row >= rows) return;
#pragma unroll
    for (int n = 0; n < kOfLane; ++n) {
      const int column = first_column + LaneOf() + kWarp * n;
      if (column >= dim) break;
      const A x = results[i][n] * factor[i];
      if (to.narrow.data != nullptr) {
        Store(to.narrow.At(b, h, first + row, dim) + column, x);
      } else {
        A* const at = to.wide.At(b, h, first + row, dim) + column;
        *at = to.add ? x + *at * keep[i] : x;
      }
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) Forward(const ForwardOperands<T> o) {
  using A = Wide<T>;
  const AttentionSizes<T>& s = o.sizes;
  const Memory<A> memory;
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int seen = s.causal ? min(s.keys, first + kTile) : s.keys;
  const Head<T> q(o.q, b, h, first, s.queries, s.dim);
  A lse[kRows];
  for (int first_column = 0; first_column < s.dim; first_column += kColumns) {
    A results[kRows][kOfLane], largest[kRows], sum[kRows];
    Clear(results);
    for (int i = 0; i < kRows; ++i) largest[i] = -INFINITY, sum[i] = 0;
    for (int key = 0; key < seen; key += kTile) {
      A scores[kRows];
      Dots(scores, q, Head<T>(o.k, b, h / s.group, key, s.keys, s.dim), s.dim, memory);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        const bool sees = key + LaneOf() < (s.causal ? min(s.keys, first + FirstRow() + i + 1) : s.keys);
        const A score = sees ? scores[i] * s.scale : -static_cast<A>(INFINITY), top = max(largest[i], WarpMax(score));
        const A shrink = exp(largest[i] - top), p = exp(score - top);  // in the first tile every row sees a key
        largest[i] = top;
        sum[i] = sum[i] * shrink + WarpSum(p);
#pragma unroll
        for (int n = 0; n < kOfLane; ++n) results[i][n] *= shrink;
        Weight(memory.w, i) = p;
      }
      AddWeighted(results, memory.w, Head<T>(o.v, b, h / s.group, key, s.keys, s.dim), first_column, s.dim, memory);
    }
    A factor[kRows], keep[kRows];
    for (int i = 0; i < kRows; ++i) {
      const int row = first + FirstRow() + i;
      lse[i] = largest[i] + log(sum[i]);
      factor[i] = sum[i] > 0 ? 1 / sum[i] : 0;
      keep[i] = o.out.add && row < s.queries ? MakeRoom(*o.lse.At(b, h, row), lse[i], factor[i]) : A(0);
    }
    WriteRows(results, factor, keep, o.out, b, h, first, q.rows, first_column, s.dim);
  }
  __syncwarp();  // all lanes have read
  for (int i = 0; i < kRows; ++i) {
    if (LaneOf() == 0 && first + FirstRow() + i < s.queries) *o.lse.At(b, h, first + FirstRow() + i) = lse[i];
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) BackwardOfQueries(const BackwardOperands<T> o) {
  using A = Wide<T>;
  const AttentionSizes<T>& s = o.sizes;
  const Memory<A> memory;
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * kTile, h = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const int seen = s.causal ? min(s.keys, first + kTile) : s.keys;
  const Head<T> q(o.q, b, h, first, s.queries, s.dim), out(o.out, b, h, first, s.queries, s.dim),
      dout(o.dout, b, h, first, s.queries, s.dim);
  A lse[kRows], delta[kRows], scale[kRows], one[kRows];
  for (int i = 0; i < kRows; ++i) {
    const int row = FirstRow() + i;
    A sum = 0;
    for (int column = LaneOf(); column < s.dim; column += kWarp) {
      sum += dout.template At<A>(row, column, s.dim) * out.template At<A>(row, column, s.dim);
    }
    delta[i] = WarpSum(sum);
    lse[i] = row < q.rows ? *o.lse.At(b, h, first + row) : A(0);
    if (LaneOf() == 0 && row < q.rows) *o.delta.At(b, h, first + row) = delta[i];
    scale[i] = s.scale, one[i] = 1;
  }
  for (int first_column = 0; first_column < s.dim; first_column += kColumns) {
    A results[kRows][kOfLane];
    Clear(results);
    for (int key = 0; key < seen; key += kTile) {
      A scores[kRows], dp[kRows];
      const Head<T> k(o.k, b, h / s.group, key, s.keys, s.dim), v(o.v, b, h / s.group, key, s.keys, s.dim);
      Dots(scores, q, k, s.dim, memory);
      Dots(dp, dout, v, s.dim, memory);
      for (int i = 0; i < kRows; ++i) {
        const bool sees = key + LaneOf() < (s.causal ? min(s.keys, first + FirstRow() + i + 1) : s.keys);
        Weight(memory.w, i) = sees ? exp(scores[i] * s.scale - lse[i]) * (dp[i] - delta[i]) : A(0);
      }
      AddWeighted(results, memory.w, k, first_column, s.dim, memory);
    }
    WriteRows(results, scale, one, o.dq, b, h, first, q.rows, first_column, s.dim);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) BackwardOfKeys(const BackwardOperands<T> o) {
  using A = Wide<T>;
  const AttentionSizes<T>& s = o.sizes;
  const Memory<A> memory;
  const int first = static_cast<int>(blockIdx.x) * kTile, kv_head = static_cast<int>(blockIdx.y),
            b = static_cast<int>(blockIdx.z);
  const Head<T> k(o.k, b, kv_head, first, s.keys, s.dim), v(o.v, b, kv_head, first, s.keys, s.dim);
  A scale[kRows], one[kRows];
  for (int i = 0; i < kRows; ++i) scale[i] = s.scale, one[i] = 1;
  for (int first_column = 0; first_column < s.dim; first_column += kColumns) {
    A dk[kRows][kOfLane], dv[kRows][kOfLane];
    Clear(dk);
    Clear(dv);
    for (int h = kv_head * s.group; h < (kv_head + 1) * s.group; ++h) {
      for (int query = s.causal ? first : 0; query < s.queries; query += kTile) {
        const Head<T> q(o.q, b, h, query, s.queries, s.dim), dout(o.dout, b, h, query, s.queries, s.dim);
        A scores[kRows], dp[kRows];
        Dots(scores, k, q, s.dim, memory);
        Dots(dp, v, dout, s.dim, memory);
        const bool there = LaneOf() < q.rows;
        const A lse = there ? *o.lse.At(b, h, query + LaneOf()) : A(0),
                delta = there ? *o.delta.At(b, h, query + LaneOf()) : A(0);
        for (int i = 0; i < kRows; ++i) {
          const bool sees =
              there && FirstRow() + i < k.rows && (!s.causal || query + LaneOf() >= first + FirstRow() + i);
          const A p = sees ? exp(scores[i] * s.scale - lse) : A(0);
          Weight(memory.w, i) = p;
          Weight(memory.w2, i) = p * (dp[i] - delta);
        }
        AddWeighted(dv, memory.w, dout, first_column, s.dim, memory);
        AddWeighted(dk, memory.w2, q, first_column, s.dim, memory);
      }
    }
    WriteRows(dk, scale, one, o.dk, b, kv_head, first, k.rows, first_column, s.dim);
    WriteRows(dv, one, one, o.dv, b, kv_head, first, k.rows, first_column, s.dim);
  }
}

template <class T>
dim3 Grid(const AttentionSizes<T>& s, int rows, int heads) {
  return dim3(static_cast<unsigned>(CeilDiv(rows, kTile)), static_cast<unsigned>(heads),
              static_cast<unsigned>(s.batch));
}

}  // namespace

template <class T>
void PlainForward(const ForwardOperands<T>& o, const Context& c) {
  Launch(Forward<T>, Grid(o.sizes, o.sizes.queries, o.sizes.heads), dim3(kThreads), Memory<Wide<T>>::kBytes, c.stream,
         o);
}
template <class T>
void PlainBackward(const BackwardOperands<T>& o, const Context& c) {
  const AttentionSizes<T>& s = o.sizes;
  Launch(BackwardOfQueries<T>, Grid(s, s.queries, s.heads), dim3(kThreads), Memory<Wide<T>>::kBytes, c.stream, o);
  Launch(BackwardOfKeys<T>, Grid(s, s.keys, s.heads / s.group), dim3(kThreads), Memory<Wide<T>>::kBytes, c.stream, o);
}

template void PlainForward(const ForwardOperands<float>&, const Context&);
template void PlainForward(const ForwardOperands<double>&, const Context&);
template void PlainForward(const ForwardOperands<Bf16>&, const Context&);
template void PlainForward(const ForwardOperands<Half>&, const Context&);
template void PlainBackward(const BackwardOperands<float>&, const Context&);
template void PlainBackward(const BackwardOperands<double>&, const Context&);
template void PlainBackward(const BackwardOperands<Bf16>&, const Context&);
template void PlainBackward(const BackwardOperands<Half>&, const Context&);

}  // namespace twofold::cuda
