// Forward attention on tensor cores (Dao 2023, "FlashAttention-2", algorithm 1). A block has a tile of queries and
// loops over the keys tile by tile. Scores and results stay in registers; the softmax is computed online (base 2).
// Tiles hidden by a causal mask are skipped; if only a warp's part of a tile is hidden, that warp skips it.
// Probabilities are rounded to T for their product with the values; sums are f32.
//
// Arithmetic: 2 products of queries x keys x dim. Global memory: queries are read once, keys and values once for each
// tile of queries (mostly from the L2 cache, because the blocks of a head follow one another), and results are written
// once. No workspace.
//
// The values of a tile are loaded while its scores are computed, the keys of the next tile during the softmax and the
// second product.
#include "kernels/cuda/attention_tiles.h"

namespace twofold::cuda {
namespace {

template <int D>
struct ForwardTile {
  static constexpr int kWarps = 4, kThreads = kWarps * kWarp;
  static constexpr int kM = D <= 128 ? 2 : 1;  // M of a warp's c[M][N]
  static constexpr int kQueries = 16 * kM * kWarps, kKeys = 64;
  using Shared = SharedRows<D>;
  static constexpr size_t kShared = (kQueries + 2 * kKeys) * Shared::kRow * 2;
  static_assert(kShared <= 99 << 10);  // limit per block for compute capability 8.6; higher elsewhere
};

template <class T, int D>
__global__ void __launch_bounds__(ForwardTile<D>::kThreads) FlashForward(const ForwardOperands<T> o) {
  using Tile = ForwardTile<D>;
  using Shared = Tile::Shared;
  constexpr int M = Tile::kM, kScores = Tile::kKeys / 8, kResults = D / 8;
  const AttentionSizes<T>& s = o.sizes;
  T* const queries = DynamicShared<T>();
  T* const keys = queries + Tile::kQueries * Shared::kRow;
  T* const values = keys + Tile::kKeys * Shared::kRow;

  // Under a causal mask the last tiles have the most keys, so they start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tile::kQueries;
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int first_of_warp = first + WarpOfBlock() * 16 * M;
  const int seen = s.causal ? min(s.keys, first + Tile::kQueries) : s.keys;
  const int tiles = (seen + Tile::kKeys - 1) / Tile::kKeys;
  const int keys_stride = static_cast<int>(o.k.row), values_stride = static_cast<int>(o.v.row);
  const T* const first_key = o.k.At(b, h / s.group, 0, s.dim);
  const T* const first_value = o.v.At(b, h / s.group, 0, s.dim);
  const auto copy = [&](T* to, const T* from, int stride, int key) {
    CopyRows<Shared, Tile::kKeys, Tile::kThreads>(to, from + int64_t{key} * stride, stride, s.keys - key, s.dim);
    CommitCopies();
  };
  CopyRows<Shared, Tile::kQueries, Tile::kThreads>(queries, o.q.At(b, h, first, s.dim), static_cast<int>(o.q.row),
                                                   s.queries - first, s.dim);
  if (tiles > 0) copy(keys, first_key, keys_stride, 0);

  const float scale_log2e = s.scale * kLog2E;
  T* const queries_of_warp = queries + WarpOfBlock() * 16 * M * Shared::kRow;
  float results[M][kResults][4] = {};
  RunningSoftmax<M> softmax;
  for (int tile = 0; tile < tiles; ++tile) {
    const int key = tile * Tile::kKeys;
    const bool in_sight = !s.causal || key < first_of_warp + 16 * M;
    float scores[M][kScores][4];
    WaitForCopies<0>();
    __syncthreads();  // keys have arrived, and earlier values are no longer read
    copy(values, first_value, values_stride, key);
    if (in_sight) {
      RowsByRows<Shared>(scores, queries_of_warp, keys);
      if (key + Tile::kKeys > s.keys || (s.causal && key + Tile::kKeys > first_of_warp + 1)) {
        Hide(scores, NotBefore(),
             [&](int row) { return (s.causal ? min(s.keys, first_of_warp + row + 1) : s.keys) - key; });
      }
    }
    WaitForCopies<0>();
    __syncthreads();  // values have arrived, and these keys are no longer read
    if (tile + 1 < tiles) copy(keys, first_key, keys_stride, key + Tile::kKeys);
    if (in_sight) {
      softmax.Take(scores, scale_log2e, [&results](int m, int half, float shrink) {
#pragma unroll
        for (int n = 0; n < kResults; ++n) results[m][n][2 * half] *= shrink, results[m][n][2 * half + 1] *= shrink;
      });
      WeightsByRows<Shared>(results, scores, values);
    }
  }

  // the queries are never read: without keys, results are wide and not staged
  if (tiles == 0) CommitCopies(), WaitForCopies<0>();

  FinishForward<Shared>(o, results, softmax, b, h, first_of_warp, queries_of_warp);
}

}  // namespace

template <class T>
void TensorCoreForward(const ForwardOperands<T>& o, const Context& c) {
  ForDim(o.sizes.dim, [&]<int D>() {
    using Tile = ForwardTile<D>;
    const dim3 grid(static_cast<unsigned>(CeilDiv(o.sizes.queries, Tile::kQueries)),
                    static_cast<unsigned>(o.sizes.heads), static_cast<unsigned>(o.sizes.batch));
    Launch(FlashForward<T, D>, grid, dim3(Tile::kThreads), Tile::kShared, c.stream, o);
  });
}
template void TensorCoreForward(const ForwardOperands<Bf16>&, const Context&);
template void TensorCoreForward(const ForwardOperands<Half>&, const Context&);

}  // namespace twofold::cuda
