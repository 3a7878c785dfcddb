// Forward attention on Hopper's tensor cores (Shah et al. 2024, "FlashAttention-3", algorithm 1 with the two overlaps
// of sections 3.1 and 3.2). The arithmetic is that of attention_forward.cu: scores and results stay in registers, the
// softmax is computed online (base 2), and probabilities are rounded to T for their product with the values.
//
// A block has 64 queries for each of its two or three warp groups that compute, and one more warp group, of which a
// single thread copies tiles (TMA): the queries once, then keys and values tile by tile into two rings of kStages
// stages. A stage's barrier `full` says that a tile has arrived, its barrier `free` that all warps are done with it.
//
//   Between warp groups: they start their products in turns, so that one group's softmax runs beside the products of
//   the others.
//   Within a warp group: the scores of a tile are started together with the product of the weights and values of the
//   tile before. The softmax of the new scores runs beside the latter.
//
// Tiles hidden from a block by a causal mask are not copied; those hidden from one of its warp groups it leaves out.
//
// TMA with the 128-byte swizzle is what FlashAttention-3 has: one thread starts the copy of a tile, rows outside of the
// tensor become zeros, and the products read the swizzled tile as it is. (Without a swizzle a product reads blocks of 8
// rows x 16 bytes, each contiguous, which no copy of rows makes. cp.async of 16 bytes, with the swizzle in software,
// would take a warp group's instructions and a fence between the generic and the async proxy.)
//
// Arithmetic and global memory as in attention_forward.cu. No workspace: the maps of the tensors are arguments.
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/hopper.h"

namespace twofold::cuda {
namespace {

template <int D>
struct HopperTile {
  static_assert(D == 64 || D == 128);
  static constexpr int kGroups = D == 64 ? 3 : 2;  // that compute
  static constexpr int kThreads = (1 + kGroups) * kWarpGroup;
  static constexpr int kQueries = 64, kKeys = 128;  // of a warp group; of a tile
  static constexpr int kStages = 2;
  // Registers of a thread, from which setmaxnreg goes on: the multiprocessor's 65,536 divided by the threads of a
  // block. What the copying threads give up, the others take.
  static constexpr int kCopying = D == 64 ? 32 : 24, kComputing = D == 64 ? 160 : 240;
  static_assert((kCopying + kGroups * kComputing) * kWarpGroup <= 65536);

  // Bytes in shared memory. A tile of D columns is D / 64 slabs of 64 columns, 128 bytes a row.
  static constexpr int kSlabs = D / 64, kSlabRow = 128;
  static constexpr int kQueriesSlab = kQueries * kSlabRow, kKeysSlab = kKeys * kSlabRow;
  static constexpr int kQueryBytes = kSlabs * kQueriesSlab, kTileBytes = kSlabs * kKeysSlab;
  static constexpr int kPattern = 1024;  // of the swizzle, to whose multiple the tiles are aligned
  static constexpr int kKeysAt = kGroups * kQueryBytes, kValuesAt = kKeysAt + kStages * kTileBytes,
                       kBarriersAt = kValuesAt + kStages * kTileBytes;
  // Barriers, of 8 bytes: the queries', then full and free of the keys' stages, and of the values'.
  static constexpr int kBarriers = 1 + 4 * kStages;
  static constexpr size_t kShared = kPattern - 128 + kBarriersAt + 8 * kBarriers;  // DynamicShared is aligned to 128
  static_assert(kShared <= 227 << 10);  // limit per block for compute capability 9.0
};

template <class T>
struct HopperOperands {
  ForwardOperands<T> o;
  TensorMap q, k, v;
};

#ifdef TWOFOLD_HAS_HOPPER
// A ring of tiles in shared memory, of keys or of values. Tile t is in stage t % kStages.
template <int D>
struct TileRing {
  using Tile = HopperTile<D>;
  uint32_t tiles, barriers;

  __device__ uint32_t At(int tile) const { return tiles + Stage(tile) * Tile::kTileBytes; }
  __device__ uint32_t Full(int tile) const { return barriers + Stage(tile) * 16; }
  __device__ uint32_t Free(int tile) const { return Full(tile) + 8; }
  __device__ void Init() const {
    for (int stage = 0; stage < Tile::kStages; ++stage) {
      InitBarrier(Full(stage), 1);
      InitBarrier(Free(stage), Tile::kGroups * kWarpGroup / kWarp);
    }
  }
  // Starts to copy 128 rows from row `row` on, as soon as all warps are done with the tile that was in the stage.
  __device__ void Copy(int tile, const TensorMap& map, int column, int b) const {
    WaitForPhase(Free(tile), Turn(tile) % 2 == 0 ? 1 : 0);  // the first turn of a stage waits for nothing
    ArriveAndExpect(Full(tile), Tile::kTileBytes);
    for (int slab = 0; slab < Tile::kSlabs; ++slab)
      CopyTile(At(tile) + slab * Tile::kKeysSlab, map, column + 64 * slab, tile * Tile::kKeys, b, Full(tile));
  }
  __device__ void Wait(int tile) const { WaitForPhase(Full(tile), Turn(tile) % 2); }
  // Called by whole warps, each after its own products with the tile are done.
  __device__ void Release(int tile) const {
    if (Lane() == 0) Arrive(Free(tile));
  }

 private:
  static __device__ int Stage(int tile) { return tile % Tile::kStages; }
  static __device__ int Turn(int tile) { return tile / Tile::kStages; }
};

// scores = queries keys^T is started: 64 queries of a warp group, and a tile of keys.
template <class T, int D>
__device__ inline void StartScores(float (&scores)[1][16][4], uint32_t queries, uint32_t keys) {
  using Tile = HopperTile<D>;
  FenceProducts();
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {  // of 16 columns, 32 bytes
    const int slab = k / 4, within = k % 4 * 32;
    MultiplyShared<T, Tile::kKeys>(scores[0], SwizzledMatrix(queries + slab * Tile::kQueriesSlab + within, 16, 1024),
                                   SwizzledMatrix(keys + slab * Tile::kKeysSlab + within, 16, 1024), k > 0);
  }
  CommitProducts();
}
// results += weights values is started.
template <class T, int D>
__device__ inline void StartResults(float (&results)[1][D / 8][4], const uint32_t (&weights)[8][4], uint32_t values) {
  using Tile = HopperTile<D>;
  FenceProducts();
#pragma unroll
  for (int k = 0; k < Tile::kKeys / 16; ++k) {  // of 16 keys
    MultiplyRegisters<T, D>(results[0], weights[k],
                            SwizzledMatrix(values + k * 16 * Tile::kSlabRow, Tile::kKeysSlab, 1024), true);
  }
  CommitProducts();
}

// Warp groups start products in turns: group g waits for the barrier that the group before it arrives at. Each group
// takes each of `turns` turns. Nobody waits for the first turn of group 0, or arrives for one after its last.
template <int kGroups>
struct Turns {
  int group, turns;
  __device__ void Begin(int turn) const {
    if (group > 0 || turn > 0) WaitAtBarrier(1 + group, 2 * kWarpGroup);
  }
  __device__ void End(int turn) const {
    if (group < kGroups - 1) return ArriveAtBarrier(2 + group, 2 * kWarpGroup);
    if (turn + 1 < turns) ArriveAtBarrier(1, 2 * kWarpGroup);
  }
};
#endif

template <class T, int D>
__global__ void __launch_bounds__(HopperTile<D>::kThreads, 1)
    HopperForward(const __grid_constant__ HopperOperands<T> operands) {
#ifdef TWOFOLD_HAS_HOPPER
  using Tile = HopperTile<D>;
  const ForwardOperands<T>& o = operands.o;
  const AttentionSizes<T>& s = o.sizes;
  unsigned char* shared = DynamicShared<unsigned char>();
  shared += (Tile::kPattern - SharedWindow(shared) % Tile::kPattern) % Tile::kPattern;
  const uint32_t base = SharedWindow(shared), queries_here = base + Tile::kBarriersAt;
  const TileRing<D> keys{base + Tile::kKeysAt, queries_here + 8};
  const TileRing<D> values{base + Tile::kValuesAt, queries_here + 8 + 16 * Tile::kStages};

  // Under a causal mask the last tiles have the most keys, so they start first.
  const int first = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Tile::kQueries * Tile::kGroups;
  const int b = static_cast<int>(blockIdx.z), h = static_cast<int>(blockIdx.y);
  const int seen = s.causal ? min(s.keys, first + Tile::kQueries * Tile::kGroups) : s.keys;
  const int tiles = (seen + Tile::kKeys - 1) / Tile::kKeys;

  if (threadIdx.x == 0) {
    InitBarrier(queries_here, 1);
    keys.Init();
    values.Init();
    FenceBarrierInit();
  }
  __syncthreads();

  if (threadIdx.x < kWarpGroup) {
    LowerRegisters<Tile::kCopying>();
    if (threadIdx.x > 0) return;
    ArriveAndExpect(queries_here, Tile::kGroups * Tile::kQueryBytes);
    for (int group = 0; group < Tile::kGroups; ++group) {
      for (int slab = 0; slab < Tile::kSlabs; ++slab) {
        CopyTile(base + group * Tile::kQueryBytes + slab * Tile::kQueriesSlab, operands.q, h * D + 64 * slab,
                 first + group * Tile::kQueries, b, queries_here);
      }
    }
    for (int tile = 0; tile < tiles; ++tile) {
      keys.Copy(tile, operands.k, h / s.group * D, b);
      values.Copy(tile, operands.v, h / s.group * D, b);
    }
    return;
  }

  RaiseRegisters<Tile::kComputing>();
  const int group = static_cast<int>(threadIdx.x) / kWarpGroup - 1;
  const int first_of_group = first + group * Tile::kQueries;
  const int first_of_warp = first_of_group + WarpOfBlock() % 4 * 16;
  // What the group sees: at least one tile.
  const int tiles_of_group =
      s.causal ? (min(s.keys, first_of_group + Tile::kQueries) + Tile::kKeys - 1) / Tile::kKeys : tiles;
  const uint32_t queries = base + group * Tile::kQueryBytes;
  const Turns<Tile::kGroups> turns{group, tiles - 1};
  const float scale_log2e = s.scale * kLog2E;

  float scores[1][Tile::kKeys / 8][4], results[1][D / 8][4] = {};
  uint32_t weights[Tile::kKeys / 16][4];
  RunningSoftmax<1> softmax;
  const auto hide = [&](int key) {
    if (key + Tile::kKeys > s.keys || (s.causal && key + Tile::kKeys > first_of_group + 1)) {
      Hide(scores, NotBefore(),
           [&](int row) { return (s.causal ? min(s.keys, first_of_warp + row + 1) : s.keys) - key; });
    }
  };
  const auto pack = [&] {
#pragma unroll
    for (int k = 0; k < Tile::kKeys / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&two)[4] = scores[0][2 * k + i / 2];
        weights[k][i] = PackTwo<T>(two[i % 2 * 2], two[i % 2 * 2 + 1]);
      }
    }
  };

  WaitForPhase(queries_here, 0);
  keys.Wait(0);
  StartScores<T, D>(scores, queries, keys.At(0));
  WaitForProducts<0>();
  Keep(scores[0]);
  keys.Release(0);
  hide(0);
  softmax.Take(scores, scale_log2e, [](int, int, float) {});  // there are no results yet
  pack();

  for (int tile = 1; tile < tiles_of_group; ++tile) {
    keys.Wait(tile);
    turns.Begin(tile - 1);
    StartScores<T, D>(scores, queries, keys.At(tile));
    values.Wait(tile - 1);
    StartResults<T, D>(results, weights, values.At(tile - 1));
    turns.End(tile - 1);
    WaitForProducts<1>();
    Keep(scores[0]);
    keys.Release(tile);
    hide(tile * Tile::kKeys);
    float shrink[2] = {1, 1};
    softmax.Take(scores, scale_log2e, [&shrink](int, int half, float by) { shrink[half] = by; });
    WaitForProducts<0>();
    Keep(results[0]);
    values.Release(tile - 1);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) results[0][n][i] *= shrink[i / 2];
    }
    pack();
  }
  values.Wait(tiles_of_group - 1);
  StartResults<T, D>(results, weights, values.At(tiles_of_group - 1));
  WaitForProducts<0>();
  Keep(results[0]);
  values.Release(tiles_of_group - 1);

  // Other groups see these tiles. A tile is released only once it is there: earlier, this would count for the one that
  // was in its stage.
  for (int tile = tiles_of_group; tile < tiles; ++tile) {
    turns.Begin(tile - 1);
    turns.End(tile - 1);
    keys.Wait(tile);
    keys.Release(tile);
    values.Wait(tile);
    values.Release(tile);
  }

  // No warp of the group reads queries any more: their memory becomes the staging memory of results.
  WaitAtBarrier(1 + Tile::kGroups + group, kWarpGroup);
  T* const staging = reinterpret_cast<T*>(shared + group * Tile::kQueryBytes) + WarpOfBlock() % 4 * 16 * D;
  FinishForward<SharedRows<D, true>>(o, results, softmax, b, h, first_of_warp, staging);
#elif defined(__CUDA_ARCH__)
  __trap();  // WhyNoHopperAttention keeps these GPUs away
#endif
}

// `columns` from the first head's on; `box_rows` of them are a tile's.
template <class T>
TensorMap MapOf(const HeadRows<const T>& rows, int64_t columns, int64_t count, int64_t batch, int box_rows) {
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * sizeof(T); };
  return Encode({.data = rows.data,
                 .sizes = {static_cast<uint64_t>(columns), static_cast<uint64_t>(count), static_cast<uint64_t>(batch)},
                 .strides = {bytes(rows.row), bytes(rows.batch)},
                 .box = {64, static_cast<uint32_t>(box_rows), 1}});
}

template <class T, int D>
void HopperForwardOf(const ForwardOperands<T>& o, const Context& c) {
  using Tile = HopperTile<D>;
  const AttentionSizes<T>& s = o.sizes;
  const int64_t kv_columns = int64_t{s.heads / s.group} * D;
  const HopperOperands<T> operands{.o = o,
                                   .q = MapOf(o.q, int64_t{s.heads} * D, s.queries, s.batch, Tile::kQueries),
                                   .k = MapOf(o.k, kv_columns, s.keys, s.batch, Tile::kKeys),
                                   .v = MapOf(o.v, kv_columns, s.keys, s.batch, Tile::kKeys)};
  const dim3 grid(static_cast<unsigned>(CeilDiv(s.queries, Tile::kQueries * Tile::kGroups)),
                  static_cast<unsigned>(s.heads), static_cast<unsigned>(s.batch));
  Launch(HopperForward<T, D>, grid, dim3(Tile::kThreads), Tile::kShared, c.stream, operands);
}

}  // namespace

template <class T>
void TensorCoreForwardOfHopper(const ForwardOperands<T>& o, const Context& c) {
  if (o.sizes.dim == 64) return HopperForwardOf<T, 64>(o, c);
  TWOFOLD_CHECK(o.sizes.dim == 128, "a head that has a kernel");
  HopperForwardOf<T, 128>(o, c);
}
template void TensorCoreForwardOfHopper(const ForwardOperands<Bf16>&, const Context&);
template void TensorCoreForwardOfHopper(const ForwardOperands<Half>&, const Context&);

}  // namespace twofold::cuda
