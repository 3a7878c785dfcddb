// Backward attention on tensor cores, from the log-sum-exp of each row (Dao 2023, "FlashAttention-2", algorithm 2), as
// two kernels. One runs over tiles of queries and computes dq and delta = sum of dout * out. The other runs over tiles
// of keys and computes dk and dv; it loops in order over the queries of all heads that share the keys. Blocks never add
// to each other's results, so results are repeatable and are written in T without a second pass. In exchange, both
// kernels compute the scores and their gradients: 7 products of queries x keys x dim instead of 5 (9 for dim > 128,
// whose dk and dv are computed in two halves). Tiles hidden by a causal mask are skipped. Probabilities p and the
// scores' gradients ds are rounded to T for their products; sums are f32.
//
// In both kernels the rows of a warp's results are keys (p^T = k q^T). The results are then the left operands of the
// products that follow, so p and ds stay in registers.
//
// Memory: only delta, f32 [b, heads, queries].
#include "kernels/cuda/attention_tiles.h"

namespace twofold::cuda {
namespace {

template <int D>
struct QueriesTile {
  using Shared = SharedRows<D, (D >= 128)>;
  static constexpr int kWarps = 4, kThreads = kWarps * kWarp;
  static constexpr int kM = D <= 128 ? 2 : 1;
  static constexpr int kQueries = 16 * kM * kWarps, kKeys = D <= 64 ? 64 : 32;
  static constexpr int kStages = D <= 128 ? 2 : 1;  // 2: the next tile's keys and values are loaded during this tile
  static constexpr size_t kShared =
      (2 * kQueries + 2 * kStages * kKeys) * Shared::kRow * 2 + 2 * kQueries * sizeof(float);
  static_assert(kShared <= 99 << 10);
};

// Computes delta of a warp's 16 M rows, with eight lanes per row, and stores it in shared memory and in the workspace.
template <class S, int M, class T>
__device__ inline void Delta(const T* dout, const T* out, int64_t stride, int rows, int dim, float* shared,
                             float* global) {
  for (int first = 0; first < 16 * M; first += 4) {
    const int row = first + Lane() / 8;
    float sum = 0;
    for (int chunk = Lane() % 8; row < rows && chunk * 8 < dim; chunk += 8) {
      const auto a = *reinterpret_cast<const Pack<T, 8>*>(dout + S::At(row, chunk));
      const auto b = *reinterpret_cast<const Pack<T, 8>*>(out + row * stride + chunk * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum += ToFloat(a.at[i]) * ToFloat(b.at[i]);
    }
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (Lane() % 8 == 0) {
      shared[row] = sum;
      if (row < rows) global[row] = sum;
    }
  }
  __syncwarp();
}

template <class T, int D>
__global__ void __launch_bounds__(QueriesTile<D>::kThreads) FlashBackwardOfQueries(const BackwardOperands<T> o) {
  using Tile = QueriesTile<D>;
  using Shared = Tile::Shared;
  constexpr int M = Tile::kM, N = Tile::kKeys / 8, kKeyElements = Tile::kKeys * Shared::kRow;
  const AttentionSizes<T>& s = o.sizes;
  T* const queries = DynamicShared<T>();
  T* const douts = queries + Tile::kQueries * Shared::kRow;
  T* const keys = douts + Tile::kQueries * Shared::kRow;  // for each stage: keys, values
  float* const deltas = reinterpret_cast<float*>(keys + 2 * Tile::kStages * kKeyElements);

  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tile::kQueries;
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int row_of_warp = WarpOfBlock() * 16 * M, first_of_warp = first + row_of_warp,
            rows_of_warp = s.queries - first_of_warp;
  const int seen = s.causal ? min(s.keys, first + Tile::kQueries) : s.keys;
  const int tiles = (seen + Tile::kKeys - 1) / Tile::kKeys;
  const int keys_stride = static_cast<int>(o.k.row), values_stride = static_cast<int>(o.v.row);
  const int kv_head = h / s.group;
  const auto copy = [&](int tile) {
    const int key = tile * Tile::kKeys, batch = MadeAnew(b);  // no registers are left to keep addresses between tiles
    T* const to = keys + tile % Tile::kStages * 2 * kKeyElements;
    CopyRows<Shared, Tile::kKeys, Tile::kThreads>(to, o.k.At(batch, kv_head, key, s.dim), keys_stride, s.keys - key,
                                                  s.dim);
    CopyRows<Shared, Tile::kKeys, Tile::kThreads>(to + kKeyElements, o.v.At(batch, kv_head, key, s.dim), values_stride,
                                                  s.keys - key, s.dim);
    CommitCopies();
  };
  CopyRows<Shared, Tile::kQueries, Tile::kThreads>(queries, o.q.At(b, h, first, s.dim), static_cast<int>(o.q.row),
                                                   s.queries - first, s.dim);
  CopyRows<Shared, Tile::kQueries, Tile::kThreads>(douts, o.dout.At(b, h, first, s.dim), static_cast<int>(o.dout.row),
                                                   s.queries - first, s.dim);
  CommitCopies();
  if (tiles > 0) copy(0);

  T* const queries_of_warp = queries + row_of_warp * Shared::kRow;
  const T* const douts_of_warp = douts + row_of_warp * Shared::kRow;
  WaitForCopies<0>();
  __syncthreads();
  Delta<Shared, M>(douts_of_warp, o.out.At(b, h, first_of_warp, s.dim), o.out.row, rows_of_warp, s.dim,
                   deltas + row_of_warp, o.delta.At(b, h, first_of_warp));
  const float scale_log2e = s.scale * kLog2E;
  float* const lses = deltas + Tile::kQueries;
  for (int row = Lane(); row < 16 * M; row += kWarp) {
    lses[row_of_warp + row] = row < rows_of_warp ? *o.lse.At(b, h, first_of_warp + row) * kLog2E : 0;
  }
  __syncwarp();

  float dq[M][D / 8][4] = {};
  for (int tile = 0; tile < tiles; ++tile) {
    const int key = tile * Tile::kKeys;
    const T* const keys_now = keys + tile % Tile::kStages * 2 * kKeyElements;
    WaitForCopies<0>();
    __syncthreads();  // this tile has arrived, and the previous one is no longer read
    if (Tile::kStages == 2 && tile + 1 < tiles) copy(tile + 1);
    if (!s.causal || key < first_of_warp + 16 * M) {
      float p[M][N][4], ds[M][N][4];
      const int row_of_warp = MadeAnew(WarpOfBlock()) * 16 * M, first_of_warp = first + row_of_warp;
      RowsByRows<Shared>(p, queries + row_of_warp * Shared::kRow, keys_now);
      if (key + Tile::kKeys > s.keys || (s.causal && key + Tile::kKeys > first_of_warp + 1)) {
        Hide(p, NotBefore(), [&](int row) { return (s.causal ? min(s.keys, first_of_warp + row + 1) : s.keys) - key; });
      }
      RowsByRows<Shared>(ds, douts + row_of_warp * Shared::kRow, keys_now + kKeyElements);
      ForRowsOfLane<M>([&](int m, int half, int row) {
        const float delta = deltas[row_of_warp + row], lse = lses[row_of_warp + row];
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            ds[m][n][i] = ApproximateExp2(fmaf(p[m][n][i], scale_log2e, -lse)) * (ds[m][n][i] - delta);
          }
        }
      });
      WeightsByRows<Shared>(dq, ds, keys_now);
    }
    if (Tile::kStages == 1) {
      __syncthreads();
      if (tile + 1 < tiles) copy(tile + 1);
    }
  }

  float factor[M][2], keep[M][2];
  ForRowsOfLane<M>([&](int m, int half, int) { factor[m][half] = s.scale, keep[m][half] = 1; });
  WriteRows<Shared>(dq, factor, keep, o.dq, b, h, first_of_warp, rows_of_warp, s.dim, queries_of_warp);
}

template <int D>
struct KeysTile {
  using Shared = SharedRows<D, (D >= 128)>;
  static constexpr int kWarps = D <= 64 || D > 128 ? 4 : 8, kThreads = kWarps * kWarp;
  static constexpr int kM = D <= 64 ? 2 : 1;
  static constexpr int kKeys = 16 * kM * kWarps, kQueries = 32;
  static constexpr int kStages = D <= 128 ? 2 : 1;
  // A warp's keys stay in registers if there is room: with 16 keys per warp, loads from shared memory are the
  // bottleneck.
  static constexpr bool kHeld = kM == 1 && D <= 128;
  static constexpr int kColumns = D <= 128 ? D : 128, kParts = D / kColumns;  // of dk and dv, per block
  static constexpr size_t kShared =
      (2 * kKeys + 2 * kStages * kQueries) * Shared::kRow * 2 + kStages * 2 * kQueries * sizeof(float);
  static_assert(kShared <= 99 << 10);
};

template <class T, int D>
__global__ void __launch_bounds__(KeysTile<D>::kThreads) FlashBackwardOfKeys(const BackwardOperands<T> o) {
  using Tile = KeysTile<D>;
  using Shared = Tile::Shared;
  constexpr int M = Tile::kM, N = Tile::kQueries / 8, kColumnTiles = Tile::kColumns / 8,
                kQueryElements = Tile::kQueries * Shared::kRow;
  const AttentionSizes<T>& s = o.sizes;
  T* const keys = DynamicShared<T>();
  T* const values = keys + Tile::kKeys * Shared::kRow;
  T* const queries = values + Tile::kKeys * Shared::kRow;  // for each stage: queries, dout
  // for each stage: lse, delta
  float* const numbers = reinterpret_cast<float*>(queries + 2 * Tile::kStages * kQueryElements);

  // The first tiles are seen by the most queries, so they start first.
  const int key = static_cast<int>(blockIdx.x) / Tile::kParts * Tile::kKeys,
            first_chunk = static_cast<int>(blockIdx.x) % Tile::kParts * kColumnTiles;
  const int b = static_cast<int>(blockIdx.z), kv_head = static_cast<int>(blockIdx.y);
  const int key_of_warp = key + WarpOfBlock() * 16 * M;
  const int first_query = s.causal ? key / Tile::kQueries * Tile::kQueries : 0;
  const int tiles = (s.queries - first_query + Tile::kQueries - 1) / Tile::kQueries * s.group;
  int next_head = kv_head * s.group, next_query = first_query;
  const auto copy_next = [&](int tile) {
    const int h = next_head, query = next_query;
    T* const to = queries + tile % Tile::kStages * 2 * kQueryElements;
    CopyRows<Shared, Tile::kQueries, Tile::kThreads>(to, o.q.At(b, h, query, s.dim), static_cast<int>(o.q.row),
                                                     s.queries - query, s.dim);
    CopyRows<Shared, Tile::kQueries, Tile::kThreads>(to + kQueryElements, o.dout.At(b, h, query, s.dim),
                                                     static_cast<int>(o.dout.row), s.queries - query, s.dim);
    const int i = static_cast<int>(threadIdx.x);
    if (i < Tile::kQueries) {  // a query past the end has dout 0, which is sufficient
      float* const numbers_to = numbers + tile % Tile::kStages * 2 * Tile::kQueries;
      CopyAsync(numbers_to + i, o.lse.At(b, h, query + i), query + i < s.queries);
      CopyAsync(numbers_to + Tile::kQueries + i, o.delta.At(b, h, query + i), query + i < s.queries);
    }
    CommitCopies();
    next_query += Tile::kQueries;
    if (next_query >= s.queries) next_query = first_query, ++next_head;
  };
  CopyRows<Shared, Tile::kKeys, Tile::kThreads>(keys, o.k.At(b, kv_head, key, s.dim), static_cast<int>(o.k.row),
                                                s.keys - key, s.dim);
  CopyRows<Shared, Tile::kKeys, Tile::kThreads>(values, o.v.At(b, kv_head, key, s.dim), static_cast<int>(o.v.row),
                                                s.keys - key, s.dim);
  CommitCopies();
  if (tiles > 0) copy_next(0);

  const float scale_log2e = s.scale * kLog2E;
  T* const keys_of_warp = keys + WarpOfBlock() * 16 * M * Shared::kRow;
  T* const values_of_warp = values + WarpOfBlock() * 16 * M * Shared::kRow;
  [[maybe_unused]] uint32_t keys_held[Shared::kColumns / 16][M][4];
  float dk[M][kColumnTiles][4] = {}, dv[M][kColumnTiles][4] = {};
  for (int tile = 0, query = first_query; tile < tiles; ++tile) {
    const T* const queries_now = queries + tile % Tile::kStages * 2 * kQueryElements;
    const T* const douts_now = queries_now + kQueryElements;
    const float* const numbers_now = numbers + tile % Tile::kStages * 2 * Tile::kQueries + ColumnOfLane();
    WaitForCopies<0>();
    __syncthreads();  // this tile has arrived, and the previous one is no longer read
    if (Tile::kStages == 2 && tile + 1 < tiles) copy_next(tile + 1);
    if constexpr (Tile::kHeld) {
      if (tile == 0) {
#pragma unroll
        for (int k = 0; k < Shared::kColumns / 16; ++k) LoadColumns<Shared>(keys_held[k], keys_of_warp, k, Lane());
      }
    }
    if (!s.causal || query + Tile::kQueries > key_of_warp) {
      float p[M][N][4], ds[M][N][4];
      if constexpr (Tile::kHeld)
        RowsByRows<Shared>(p, keys_held, queries_now);
      else
        RowsByRows<Shared>(p, keys_of_warp, queries_now);
      if (s.causal && query < key_of_warp + 16 * M) {
        Hide(p, Before(), [&](int row) { return key_of_warp + row - query; });
      }
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float2 lse = *reinterpret_cast<const float2*>(numbers_now + 8 * n);
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i)
            p[m][n][i] = ApproximateExp2(fmaf(p[m][n][i], scale_log2e, -kLog2E * (i % 2 == 0 ? lse.x : lse.y)));
        }
      }
      WeightsByRows<Shared>(dv, p, douts_now, first_chunk);
      RowsByRows<Shared>(ds, values_of_warp, douts_now);
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float2 delta = *reinterpret_cast<const float2*>(numbers_now + Tile::kQueries + 8 * n);
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) ds[m][n][i] = p[m][n][i] * (ds[m][n][i] - (i % 2 == 0 ? delta.x : delta.y));
        }
      }
      WeightsByRows<Shared>(dk, ds, queries_now, first_chunk);
    }
    if (Tile::kStages == 1) {
      __syncthreads();
      if (tile + 1 < tiles) copy_next(tile + 1);
    }
    query += Tile::kQueries;
    if (query >= s.queries) query = first_query;
  }
  // these keys are never read: if no query sees them, results are wide and not staged
  if (tiles <= 0) WaitForCopies<0>();

  float scale[M][2], one[M][2];
  ForRowsOfLane<M>([&](int m, int half, int) { scale[m][half] = s.scale, one[m][half] = 1; });
  WriteRows<Shared>(dk, scale, one, o.dk, b, kv_head, key_of_warp, s.keys - key_of_warp, s.dim, keys_of_warp,
                    first_chunk);
  WriteRows<Shared>(dv, one, one, o.dv, b, kv_head, key_of_warp, s.keys - key_of_warp, s.dim, values_of_warp,
                    first_chunk);
}

}  // namespace

template <class T>
void TensorCoreBackward(const BackwardOperands<T>& o, const Context& c) {
  const AttentionSizes<T>& s = o.sizes;
  ForDim(s.dim, [&]<int D>() {
    using OfQueries = QueriesTile<D>;
    Launch(FlashBackwardOfQueries<T, D>,
           dim3(static_cast<unsigned>(CeilDiv(s.queries, OfQueries::kQueries)), static_cast<unsigned>(s.heads),
                static_cast<unsigned>(s.batch)),
           dim3(OfQueries::kThreads), OfQueries::kShared, c.stream, o);
    using OfKeys = KeysTile<D>;
    Launch(FlashBackwardOfKeys<T, D>,
           dim3(static_cast<unsigned>(CeilDiv(s.keys, OfKeys::kKeys) * OfKeys::kParts),
                static_cast<unsigned>(s.heads / s.group), static_cast<unsigned>(s.batch)),
           dim3(OfKeys::kThreads), OfKeys::kShared, c.stream, o);
  });
}
template void TensorCoreBackward(const BackwardOperands<Bf16>&, const Context&);
template void TensorCoreBackward(const BackwardOperands<Half>&, const Context&);

}  // namespace twofold::cuda
