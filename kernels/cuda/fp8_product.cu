// Products of FP8 operands: out[m, n] = op(a) op(b), with the epilogues of core/device/ops/product.h.
//
// Tensor cores multiply codes (mma.h) and sum 128 terms. Each such sum is multiplied by the scales of its two blocks
// and added to a sum in F32, as DeepSeek-V3 does it (DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", section 3.3.2).
// With one scale for a whole tensor it is the same, so that no sum on tensor cores, of which Hopper's keep about 14
// bits, has more than 128 terms. Code for GPUs before 8.9 widens codes to F16 in registers. That is exact, and sums are
// F32's.
//
// Operands are read as they lie in memory: those whose inner dimension is not contiguous are transposed on the way to
// shared memory, so that no copies are needed. What cuBLASLt computes does not come here (fp8_choice.h).
//
// Products that no layer has are decoded to F32 and multiplied without tensor cores: those of operands whose scales
// differ along the inner dimension, and those with b in E5M2.
#include "kernels/cuda/fp8.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/mma.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

// ---- The results: two neighbouring columns at a time ----

template <class Out>
struct Results {
  Out *out, *aux;  // aux: null without an epilogue
  int64_t m, n;
  const void* bias;  // null: none
  DType bias_type;
  bool accumulate, packs;
  ops::MatMul::Epilogue epilogue;

  __device__ float BiasOf(int64_t column) const {
    if (bias == nullptr) return 0;
    if (bias_type == DType::kF32) return static_cast<const float*>(bias)[column];
    if (bias_type == DType::kBF16) return ToFloat(static_cast<const Bf16*>(bias)[column]);
    return ToFloat(static_cast<const Half*>(bias)[column]);
  }
  static __device__ float Stored(float x) {
    Out stored;
    Store(&stored, x);
    return As<float>(stored);
  }
  // `sums`: of columns column and column + 1, with their bias.
  __device__ void Write(int64_t row, int64_t column, float (&sums)[2]) const {
    if (row >= m || column >= n) return;
    const int64_t at = row * n + column, count = n - column;
    const bool whole = packs && count >= 2;
    float other[2];
    if (accumulate) {
      LoadSome(out + at, whole, count, other);
      for (int i = 0; i < 2; ++i) sums[i] += other[i];
    }
    if (epilogue == ops::MatMul::kGelu) {
      StoreSome(aux + at, whole, count, sums);
      for (float& x : sums) {
        x = Stored(x);
        x *= GeluGate<Out>(x);
      }
    } else if (epilogue == ops::MatMul::kGeluSlope) {
      LoadSome(aux + at, whole, count, other);
      for (int i = 0; i < 2; ++i) sums[i] = Stored(sums[i]) * GeluSlope<Out>(other[i]);
    }
    StoreSome(out + at, whole, count, sums);
  }
};

template <class Out>
Results<Out> ResultsOf(const ops::MatMul& o) {
  return {.out = At<Out>(o.out),
          .aux = At<Out>(o.aux),
          .m = o.out.dim(0),
          .n = o.out.dim(1),
          .bias = o.bias.empty() ? nullptr : reinterpret_cast<const void*>(o.bias.address()),
          .bias_type = o.bias.empty() ? DType::kF32 : o.bias.dtype(),
          .accumulate = o.accumulate,
          .packs = PacksFit(2, o.out.dim(1), {&o.out, &o.aux}),
          .epilogue = o.epilogue};
}

// ---- On tensor cores ----

constexpr int kProductThreads = 256, kTileM = 128, kTileN = 64, kTileK = static_cast<int>(ops::kFp8Block);
constexpr int kWarpM = 32, kWarpN = 32;  // results of a warp
constexpr int kStepK = 32;               // codes of an instruction
static_assert(kTileM / kWarpM * (kTileN / kWarpN) * kWarp == kProductThreads);

// An operand: op(a), or the transpose of op(b), is [outer, k].
struct CodesOf {
  const uint8_t* codes;
  const float* scales;  // that of element (o, k) is at (o >> outer_shift) * outer_step + k / 128 * inner_step
  int64_t outer, outer_step, inner_step;
  int outer_shift;
  bool inner_rows;  // codes are stored as [k, outer]
  bool packs;       // 16 neighbouring codes can be loaded at once; with inner_rows, 4
  __device__ float Scale(int64_t o, int64_t block) const {
    return o < outer ? scales[(o >> outer_shift) * outer_step + block * inner_step] : 1.0f;
  }
};

// A tile of an operand in shared memory: [kOuter, 128], rows of eight chunks of 16 codes. Chunks are permuted within
// rows such that loads of fragments and all stores have no bank conflicts.
__device__ inline int ChunkAt(int row, int chunk) { return row * kTileK + ((chunk ^ row ^ row >> 3) & 7) * 16; }

__device__ inline uint32_t FourCodes(const uint8_t* from, bool whole, int64_t count) {
  if (whole) return *reinterpret_cast<const uint32_t*>(from);
  uint32_t four = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (i < count) four |= static_cast<uint32_t>(from[i]) << (8 * i);
  }
  return four;
}

// A thread's part of a tile on its way to shared memory; zeros for codes outside of the operand.
//   stored as [outer, k]   kWords / 4 times 16 codes of a row; eight threads read a row
//   stored as [k, outer]   kWords / 4 times 4 x 4 codes; a warp reads 32 codes of 16 rows
template <int kOuter>
struct TilePart {
  static constexpr int kWords = kOuter * kTileK / 4 / kProductThreads;
  static_assert(kWords % 4 == 0 && kOuter % 32 == 0);
  uint32_t words[kWords];

  // The first of a thread's 4 x 4 codes.
  static __device__ int OuterOf(int thread) { return thread / kWarp % (kOuter / 32) * 32 + thread % 8 * 4; }
  static __device__ int InnerOf(int thread) { return thread / kWarp / (kOuter / 32) * 16 + thread % kWarp / 8 * 4; }

  // A thread's places are computed anew each time: no registers are left to keep them between tiles.
  __device__ void Load(const CodesOf& x, int64_t outer, int64_t inner, int64_t k) {
    const int me = MadeAnew(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const int thread = me + i * kProductThreads;
      if (x.inner_rows) {
        const int64_t o = outer + OuterOf(thread), first = inner + InnerOf(thread);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int64_t count = first + r < k ? x.outer - o : 0;
          words[4 * i + r] = FourCodes(x.codes + (first + r) * x.outer + o, x.packs && count >= 4, count);
        }
      } else {
        const int64_t o = outer + thread / 8, first = inner + thread % 8 * 16;
        const uint8_t* const from = x.codes + o * k + first;
        const int64_t count = o < x.outer ? k - first : 0;
        if (x.packs && count >= 16) {
          const uint4 all = *reinterpret_cast<const uint4*>(from);
          words[4 * i] = all.x, words[4 * i + 1] = all.y, words[4 * i + 2] = all.z, words[4 * i + 3] = all.w;
        } else {
#pragma unroll
          for (int w = 0; w < 4; ++w) words[4 * i + w] = FourCodes(from + 4 * w, false, count - 4 * w);
        }
      }
    }
  }

  __device__ void Put(uint8_t* tile, bool inner_rows) const {
    const int me = MadeAnew(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const int thread = me + i * kProductThreads;
      const uint32_t* const w = words + 4 * i;
      if (inner_rows) {
        uint32_t columns[4] = {w[0], w[1], w[2], w[3]};
        TransposeBytes(columns);
        const int row = OuterOf(thread), inner = InnerOf(thread);
#pragma unroll
        for (int r = 0; r < 4; ++r)
          *reinterpret_cast<uint32_t*>(tile + ChunkAt(row + r, inner / 16) + inner % 16) = columns[r];
      } else {
        *reinterpret_cast<uint4*>(tile + ChunkAt(thread / 8, thread % 8)) = {w[0], w[1], w[2], w[3]};
      }
    }
  }
};

// A warp's results: in a lane with g = lane / 4 and p = 2 * (lane % 4), [i][j][2 * h + e] is row 16 i + 8 h + g, column
// 8 j + p + e.
constexpr int kRowTiles = kWarpM / 16, kColumnTiles = kWarpN / 8;
using WarpResults = float[kRowTiles][kColumnTiles][4];

// Adds the products of one step of codes.
template <ops::Fp8Format kA>
__device__ inline void MultiplyStep(WarpResults& c, const uint8_t* a, const uint8_t* b, int row, int column, int step) {
  const int lane = MadeAnew(static_cast<int>(threadIdx.x)) % kWarp;
  uint32_t of_a[kRowTiles][4];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) LoadMatrices(of_a[i], a, ChunkAt(row + 16 * i + lane % 16, 2 * step + lane / 16));
#pragma unroll
  for (int j = 0; j < kColumnTiles; j += 2) {
    uint32_t of_b[4];
    LoadMatrices(of_b, b, ChunkAt(column + 8 * j + lane % 8 + lane / 16 * 8, 2 * step + lane / 8 % 2));
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
      MultiplyAddFp8<kA, ops::Fp8Format::kE4M3>(c[i][j], of_a[i], of_b[0], of_b[1]);
      MultiplyAddFp8<kA, ops::Fp8Format::kE4M3>(c[i][j + 1], of_a[i], of_b[2], of_b[3]);
    }
  }
}

// x times two scales, without leaving the range of F32 on the way. Products of powers of two are exact.
__device__ inline float TimesBoth(float x, float left, float right) {
  return (left < 1) == (right < 1) ? x * left * right : x * (left * right);
}

// sums += part, times the scales of its rows and columns.
__device__ inline void AddScaled(WarpResults& sums, const WarpResults& part, const CodesOf& a, const CodesOf& b,
                                 int64_t row, int64_t column, int64_t block) {
  float of_row[kRowTiles][2];
#pragma unroll
  for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) of_row[i][h] = a.Scale(row + 16 * i + 8 * h, block);
  }
#pragma unroll
  for (int j = 0; j < kColumnTiles; ++j) {
    const float of_column[2] = {b.Scale(column + 8 * j, block), b.Scale(column + 8 * j + 1, block)};
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[i][j][e] += TimesBoth(part[i][j][e], of_row[i][e / 2], of_column[e % 2]);
    }
  }
}

template <class Out, ops::Fp8Format kA>
__global__ void __launch_bounds__(kProductThreads)
    MultiplyCodes(CodesOf a, CodesOf b, int64_t k, int64_t row_tiles, Results<Out> results) {
  uint8_t* const tile_a = DynamicShared<uint8_t>();
  uint8_t* const tile_b = tile_a + kTileM * kTileK;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first_row = blockIdx.x % row_tiles * kTileM, first_column = blockIdx.x / row_tiles * kTileN;
  const int warp_row = warp % (kTileM / kWarpM) * kWarpM, warp_column = warp / (kTileM / kWarpM) * kWarpN;
  const bool busy = first_row + warp_row < a.outer && first_column + warp_column < b.outer;
  const int64_t row = first_row + warp_row + lane / 4, column = first_column + warp_column + lane % 4 * 2;

  TilePart<kTileM> part_a;
  TilePart<kTileN> part_b;
  WarpResults sums = {};
  if (k > 0) {
    part_a.Load(a, first_row, 0, k);
    part_b.Load(b, first_column, 0, k);
  }
  for (int64_t inner = 0; inner < k; inner += kTileK) {
    __syncthreads();  // the last tiles have been read
    part_a.Put(tile_a, a.inner_rows);
    part_b.Put(tile_b, b.inner_rows);
    __syncthreads();
    if (inner + kTileK < k) {
      part_a.Load(a, first_row, inner + kTileK, k);
      part_b.Load(b, first_column, inner + kTileK, k);
    }
    if (!busy) continue;
    WarpResults of_block = {};
#pragma unroll
    for (int step = 0; step < kTileK / kStepK; ++step) {
      if (inner + step * kStepK < k) MultiplyStep<kA>(of_block, tile_a, tile_b, warp_row, warp_column, step);
    }
    AddScaled(sums, of_block, a, b, row, column, inner / kTileK);
  }
  if (!busy) return;
#pragma unroll
  for (int j = 0; j < kColumnTiles; ++j) {
    float bias[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) bias[e] = column + 8 * j + e < b.outer ? results.BiasOf(column + 8 * j + e) : 0.0f;
#pragma unroll
    for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float two[2] = {sums[i][j][2 * h] + bias[0], sums[i][j][2 * h + 1] + bias[1]};
        results.Write(row + 16 * i + 8 * h, column + 8 * j, two);
      }
    }
  }
}

// ---- Without: decoded to F32 ----

struct DecodedOf {
  const uint8_t* codes;
  const float* scales;
  int64_t columns, row_block, column_block, scale_columns;  // of the matrix as stored
  ops::Fp8Format format;
  __device__ float operator()(int64_t row, int64_t column) const {
    return ops::rules::FromFp8(codes[row * columns + column], format) *
           scales[row / row_block * scale_columns + column / column_block];
  }
};

constexpr int kDecodedThreads = 256, kDecodedM = 16, kDecodedN = 32, kDecodedK = 16;

template <class Out>
__global__ void __launch_bounds__(kDecodedThreads)
    MultiplyDecoded(DecodedOf a, DecodedOf b, bool transpose_a, bool transpose_b, int64_t k, Results<Out> results) {
  __shared__ float tile_a[kDecodedM][kDecodedK + 1], tile_b[kDecodedK][kDecodedN + 1];
  const int thread = static_cast<int>(threadIdx.x), y = thread / 16, x = thread % 16 * 2;
  const int64_t across = CeilDiv(results.n, kDecodedN);
  const int64_t first_row = blockIdx.x / across * kDecodedM, first_column = blockIdx.x % across * kDecodedN;
  float sums[2] = {};
  for (int64_t inner = 0; inner < k; inner += kDecodedK) {
    __syncthreads();
    {
      const int64_t row = first_row + y, at = inner + thread % 16;
      tile_a[y][thread % 16] = row < results.m && at < k ? transpose_a ? a(at, row) : a(row, at) : 0.0f;
    }
    for (int i = 0; i < 2; ++i) {
      const int64_t at = inner + y, column = first_column + x + i;
      tile_b[y][x + i] = column < results.n && at < k ? transpose_b ? b(column, at) : b(at, column) : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < kDecodedK; ++i) {
      sums[0] += tile_a[y][i] * tile_b[i][x];
      sums[1] += tile_a[y][i] * tile_b[i][x + 1];
    }
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t column = first_column + x + i;
    if (column < results.n) sums[i] += results.BiasOf(column);
  }
  results.Write(first_row + y, first_column + x, sums);
}

// ---- Which ----

using ops::Fp8Blocks, ops::Fp8Format, ops::kFp8Block;
static_assert(kFp8Block == 1 << 7);

// Whether 128 elements of the inner dimension have one scale. `inner_rows`: it is that of rows.
bool ScaledByBlocks(const ops::Fp8Scaling& s, bool inner_rows) {
  return s.blocks != (inner_rows ? Fp8Blocks::kRow : Fp8Blocks::kColumn);
}
bool ForTensorCores(const ops::MatMul& o) {
  return ScaledByBlocks(o.a_scaling, o.transpose_a) && ScaledByBlocks(o.b_scaling, !o.transpose_b) &&
         o.b_scaling.format == Fp8Format::kE4M3;
}

CodesOf CodesFrom(const Tensor& t, const ops::Fp8Scaling& s, bool inner_rows) {
  CodesOf of{.codes = At<uint8_t>(t),
             .scales = At<float>(s.scales),
             .outer = inner_rows ? t.dim(1) : t.dim(0),
             .outer_step = inner_rows ? 1 : s.scales.dim(1),
             .inner_step = inner_rows ? s.scales.dim(1) : 1,
             .outer_shift = s.blocks == Fp8Blocks::kSquare ? 7 : 0,
             .inner_rows = inner_rows,
             .packs = PacksFit(inner_rows ? 4 : 16, t.dim(1), {&t})};
  if (s.blocks == Fp8Blocks::kTensor) of.outer_step = of.inner_step = 0;
  return of;
}

DecodedOf DecodedFrom(const Tensor& t, const ops::Fp8Scaling& s) {
  const bool tensor = s.blocks == Fp8Blocks::kTensor;
  const auto block = [&](Fp8Blocks one, int64_t all) { return tensor ? all : s.blocks == one ? 1 : kFp8Block; };
  return {.codes = At<uint8_t>(t),
          .scales = At<float>(s.scales),
          .columns = t.dim(1),
          .row_block = block(Fp8Blocks::kRow, std::max<int64_t>(t.dim(0), 1)),
          .column_block = block(Fp8Blocks::kColumn, std::max<int64_t>(t.dim(1), 1)),
          .scale_columns = s.scales.dim(1),
          .format = s.format};
}

template <class Out, ops::Fp8Format kA>
void LaunchProduct(const CodesOf& a, const CodesOf& b, int64_t k, const ops::MatMul& o, const Context& c) {
  const int64_t row_tiles = CeilDiv(a.outer, kTileM);
  Launch(MultiplyCodes<Out, kA>, static_cast<unsigned>(row_tiles * CeilDiv(b.outer, kTileN)), kProductThreads,
         (kTileM + kTileN) * kTileK, c.stream, a, b, k, row_tiles, ResultsOf<Out>(o));
}

}  // namespace

void MultiplyFp8(const ops::MatMul& o, const Context& c) {
  if (o.out.numel() == 0) return;
  const int64_t m = o.out.dim(0), n = o.out.dim(1), k = o.transpose_a ? o.a.dim(0) : o.a.dim(1);
  if (!ForTensorCores(o)) {
    return ForNarrow(o.out.dtype(), [&]<class Out>() {
      Launch(MultiplyDecoded<Out>, static_cast<unsigned>(CeilDiv(m, kDecodedM) * CeilDiv(n, kDecodedN)),
             kDecodedThreads, 0, c.stream, DecodedFrom(o.a, o.a_scaling), DecodedFrom(o.b, o.b_scaling), o.transpose_a,
             o.transpose_b, k, ResultsOf<Out>(o));
    });
  }
  const CodesOf a = CodesFrom(o.a, o.a_scaling, o.transpose_a), b = CodesFrom(o.b, o.b_scaling, !o.transpose_b);
  ForNarrow(o.out.dtype(), [&]<class Out>() {
    o.a_scaling.format == Fp8Format::kE5M2 ? LaunchProduct<Out, Fp8Format::kE5M2>(a, b, k, o, c)
                                           : LaunchProduct<Out, Fp8Format::kE4M3>(a, b, k, o, c);
  });
}

}  // namespace twofold::cuda
