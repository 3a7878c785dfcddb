// Rounds to FP8: core/device/ops/fp8.h defines it. Codes and scales equal the CPU's bit for bit.
//
// Blocks of 128 elements are rounded in tiles of 128 x 128, which are read once and kept in registers. One scale for a
// whole tensor takes two kernels: the maxima of parts of the tensor, then their maximum and the codes.
#include <limits>

#include "kernels/cuda/functions.h"
#include "kernels/cuda/packs.h"
#include "kernels/cuda/reduce.h"

namespace twofold::cuda {
namespace {

using ops::Fp8Blocks, ops::Fp8Format, ops::kFp8Block;

constexpr int kRoundThreads = 256, kRoundEach = 8 /* neighbouring elements of a thread */;
// In a tile, each lane has kTileEach neighbouring columns of every kRoundWarps-th row.
constexpr int kRoundWarps = kRoundThreads / kWarp, kTileSide = static_cast<int>(kFp8Block),
              kTileRows = kTileSide / kRoundWarps, kTileEach = kTileSide / kWarp;

__device__ inline uint32_t MagnitudeBits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

template <int N>
__device__ inline uint32_t LargestOf(const float (&x)[N], uint32_t largest) {
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, MagnitudeBits(x[i]));
  return largest;
}

// As on the CPU: exact, because scales are powers of two; NaN, which becomes NaN codes, if the scale is not finite.
__device__ inline float RoundingFactor(float scale) {
  return scale <= std::numeric_limits<float>::max() ? __fdiv_rn(1.0f, scale) : std::numeric_limits<float>::quiet_NaN();
}

template <Fp8Format kFormat, int N>
__device__ inline void RoundSome(const float (&x)[N], float factor, uint8_t (&code)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) code[i] = ops::rules::ToFp8<kFormat>(Product(x[i], factor));
}

// The largest magnitude, as bits, of each part of `part` elements. One block per part.
template <class T>
__global__ void __launch_bounds__(kRoundThreads)
    LargestMagnitudes(const T* in, int64_t n, int64_t part, bool packs, uint32_t* largest) {
  const int64_t begin = blockIdx.x * part, end = min(begin + part, n);
  uint32_t most = 0;
  for (int64_t at = begin + threadIdx.x * kRoundEach; at < end; at += kRoundThreads * kRoundEach) {
    float x[kRoundEach];
    LoadSome(in + at, packs && at + kRoundEach <= end, end - at, x);
    most = LargestOf(x, most);
  }
  most = BlockReduce(most, MaximumOf(), uint32_t{0});
  if (threadIdx.x == 0) largest[blockIdx.x] = most;
}

template <class T, Fp8Format kFormat>
__global__ void __launch_bounds__(kRoundThreads)
    RoundToFp8(const T* in, int64_t n, const uint32_t* largest, int parts, bool packs, uint8_t* codes, float* scale) {
  uint32_t most = 0;
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += kRoundThreads) most = max(most, largest[i]);
  most = BlockReduce(most, MaximumOf(), uint32_t{0});
  const float chosen = ops::rules::Fp8ScaleOf(most, kFormat), factor = RoundingFactor(chosen);
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = chosen;
  const int64_t step = int64_t{gridDim.x} * kRoundThreads * kRoundEach;
  for (int64_t at = (int64_t{blockIdx.x} * kRoundThreads + threadIdx.x) * kRoundEach; at < n; at += step) {
    const bool whole = packs && at + kRoundEach <= n;
    float x[kRoundEach];
    uint8_t code[kRoundEach];
    LoadSome(in + at, whole, n - at, x);
    RoundSome<kFormat>(x, factor, code);
    StoreSome(codes + at, whole, n - at, code);
  }
}

// One block of threads per tile of [m, n], which is `across` tiles wide.
template <class T, Fp8Format kFormat, Fp8Blocks kBlocks>
__global__ void __launch_bounds__(kRoundThreads)
    RoundTilesToFp8(const T* in, int64_t m, int64_t n, int64_t across, bool packs, uint8_t* codes, float* scales) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t tile_row = blockIdx.x / across, tile_column = blockIdx.x % across;
  const int64_t first_row = tile_row * kTileSide + warp, column = tile_column * kTileSide + lane * kTileEach;
  const bool whole = packs && column + kTileEach <= n;
  float x[kTileRows][kTileEach];
#pragma unroll
  for (int i = 0; i < kTileRows; ++i) {
    const int64_t row = first_row + i * kRoundWarps;
    LoadSome(in + row * n + column, whole && row < m, row < m ? n - column : 0, x[i]);
  }
  const auto store = [&](int i, const uint8_t(&code)[kTileEach]) {
    const int64_t row = first_row + i * kRoundWarps;
    if (row < m) StoreSome(codes + row * n + column, whole, n - column, code);
  };
  if constexpr (kBlocks == Fp8Blocks::kRow) {
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      const int64_t row = first_row + i * kRoundWarps;
      const float scale = ops::rules::Fp8ScaleOf(WarpMax(LargestOf(x[i], 0)), kFormat);
      if (lane == 0 && row < m) scales[row * across + tile_column] = scale;
      uint8_t code[kTileEach];
      RoundSome<kFormat>(x[i], RoundingFactor(scale), code);
      store(i, code);
    }
  } else if constexpr (kBlocks == Fp8Blocks::kColumn) {
    __shared__ uint32_t of_warps[kRoundWarps][kTileSide];
#pragma unroll
    for (int j = 0; j < kTileEach; ++j) {
      uint32_t most = 0;
#pragma unroll
      for (int i = 0; i < kTileRows; ++i) most = max(most, MagnitudeBits(x[i][j]));
      of_warps[warp][lane * kTileEach + j] = most;
    }
    __syncthreads();
    float factor[kTileEach];
#pragma unroll
    for (int j = 0; j < kTileEach; ++j) {
      uint32_t most = 0;
#pragma unroll
      for (int w = 0; w < kRoundWarps; ++w) most = max(most, of_warps[w][lane * kTileEach + j]);
      const float scale = ops::rules::Fp8ScaleOf(most, kFormat);
      if (warp == 0 && column + j < n) scales[tile_row * n + column + j] = scale;
      factor[j] = RoundingFactor(scale);
    }
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      uint8_t code[kTileEach];
#pragma unroll
      for (int j = 0; j < kTileEach; ++j) code[j] = ops::rules::ToFp8<kFormat>(Product(x[i][j], factor[j]));
      store(i, code);
    }
  } else {
    uint32_t most = 0;
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) most = LargestOf(x[i], most);
    const float scale = ops::rules::Fp8ScaleOf(BlockReduce(most, MaximumOf(), uint32_t{0}), kFormat);
    if (threadIdx.x == 0) scales[blockIdx.x] = scale;
    const float factor = RoundingFactor(scale);
#pragma unroll
    for (int i = 0; i < kTileRows; ++i) {
      uint8_t code[kTileEach];
      RoundSome<kFormat>(x[i], factor, code);
      store(i, code);
    }
  }
}

// In `to`, the largest magnitude of each of `parts`.
template <class T>
void FindLargest(const Tensor& in, int64_t parts, uint32_t* to, const Context& c) {
  const int64_t part = CeilDiv(CeilDiv(in.numel(), parts), kRoundEach) * kRoundEach;
  Launch(LargestMagnitudes<T>, static_cast<unsigned>(parts), kRoundThreads, 0, c.stream, At<T>(in), in.numel(), part,
         PacksFit(kRoundEach, kRoundEach, {&in}), to);
}

template <class T>
void FindLargestOfAll(const ops::QuantiseFp8& o, const Context& c) {
  const int64_t parts = ops::rules::CudaFp8Parts(o.in.numel());
  uint32_t* const of_parts = reinterpret_cast<uint32_t*>(c.workspace);
  FindLargest<T>(o.in, parts, of_parts, c);
  // The bits of magnitudes are numbers, whose largest magnitude has the largest bits.
  Launch(LargestMagnitudes<float>, 1u, kRoundThreads, 0, c.stream, reinterpret_cast<const float*>(of_parts), parts,
         CeilDiv(parts, kRoundEach) * kRoundEach, false, At<uint32_t>(o.largest));
}

template <class T, Fp8Format kFormat>
void RoundWhole(const ops::QuantiseFp8& o, const Context& c) {
  const bool known = o.part == ops::QuantiseFp8::kCodes;
  const int64_t n = o.in.numel(), parts = known ? 1 : ops::rules::CudaFp8Parts(n);
  uint32_t* const largest = known ? At<uint32_t>(o.largest) : reinterpret_cast<uint32_t*>(c.workspace);
  if (!known) FindLargest<T>(o.in, parts, largest, c);
  Launch(RoundToFp8<T, kFormat>, GridFor(CeilDiv(n, kRoundEach), kRoundThreads, c.multiprocessors), kRoundThreads, 0,
         c.stream, At<T>(o.in), n, largest, static_cast<int>(parts),
         PacksFit(kRoundEach, kRoundEach, {&o.in, &o.codes}), At<uint8_t>(o.codes), At<float>(o.scaling.scales));
}

template <class T, Fp8Format kFormat>
void RoundTiles(const ops::QuantiseFp8& o, const Context& c) {
  const int64_t m = o.in.dim(0), n = o.in.dim(1), across = CeilDiv(n, kTileSide);
  const auto launch = [&](auto kernel) {
    Launch(kernel, static_cast<unsigned>(CeilDiv(m, kTileSide) * across), kRoundThreads, 0, c.stream, At<T>(o.in), m, n,
           across, PacksFit(kTileEach, n, {&o.in, &o.codes}), At<uint8_t>(o.codes), At<float>(o.scaling.scales));
  };
  if (o.scaling.blocks == Fp8Blocks::kRow) return launch(RoundTilesToFp8<T, kFormat, Fp8Blocks::kRow>);
  if (o.scaling.blocks == Fp8Blocks::kColumn) return launch(RoundTilesToFp8<T, kFormat, Fp8Blocks::kColumn>);
  launch(RoundTilesToFp8<T, kFormat, Fp8Blocks::kSquare>);
}

}  // namespace

void Compute(const ops::QuantiseFp8& o, const Context& c) {
  if (o.in.numel() == 0) return;
  ForNarrow(o.in.dtype(), [&]<class T>() {
    if (o.part == ops::QuantiseFp8::kLargest) return FindLargestOfAll<T>(o, c);
    const auto round = [&]<Fp8Format kFormat>() {
      o.scaling.blocks == Fp8Blocks::kTensor ? RoundWhole<T, kFormat>(o, c) : RoundTiles<T, kFormat>(o, c);
    };
    o.scaling.format == Fp8Format::kE4M3 ? round.template operator()<Fp8Format::kE4M3>()
                                         : round.template operator()<Fp8Format::kE5M2>();
  });
}

}  // namespace twofold::cuda
