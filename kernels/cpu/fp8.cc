// Rounds to FP8 and back: core/device/ops/fp8.h defines both.
//
// Elements are visited in tiles of one block's rows and kChunk columns, in which each column has a scale. So all kinds
// of blocks share one loop over contiguous memory. A scale for the whole tensor takes two passes instead.
#include "kernels/cpu/fp8.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>

namespace twofold::cpu {
namespace {

using ops::Fp8Blocks, ops::Fp8Format, ops::kFp8Block;

static_assert(kChunk % kFp8Block == 0, "a tile holds whole blocks");

constexpr std::array<float, 256> kE4M3 = ops::rules::Fp8Table(Fp8Format::kE4M3);
constexpr std::array<float, 256> kE5M2 = ops::rules::Fp8Table(Fp8Format::kE5M2);

// Rows and columns of a block, within a tile.
struct BlockSize {
  int64_t rows, columns;
};
BlockSize BlockSizeOf(Fp8Blocks blocks) {
  switch (blocks) {
    case Fp8Blocks::kTensor: return {1, kChunk};  // any: all blocks share the scale
    case Fp8Blocks::kRow: return {1, kFp8Block};
    case Fp8Blocks::kColumn: return {kFp8Block, 1};
    case Fp8Blocks::kSquare: return {kFp8Block, kFp8Block};
  }
  __builtin_unreachable();
}

uint32_t MagnitudeBits(float x) { return std::bit_cast<uint32_t>(x) & 0x7fffffffu; }

template <Fp8Format kFormat>
void EncodeFp8(const float* x, const float* factor, uint8_t* codes, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) codes[i] = ops::rules::ToFp8<kFormat>(x[i] * factor[i]);
}
void EncodeFp8(Fp8Format format, const float* x, const float* factor, uint8_t* codes, int64_t n) {
  return format == Fp8Format::kE4M3 ? EncodeFp8<Fp8Format::kE4M3>(x, factor, codes, n)
                                    : EncodeFp8<Fp8Format::kE5M2>(x, factor, codes, n);
}

// The factor by which a block is multiplied before rounding, exact since scales are powers of two; NaN, which becomes
// NaN codes, if the scale is not finite.
float RoundingFactor(float scale) { return std::isfinite(scale) ? 1 / scale : std::numeric_limits<float>::quiet_NaN(); }

uint32_t LargestBits(const Tensor& in, ThreadPool& pool) {
  const Source<float> source(in);
  std::atomic<uint32_t> largest = 0;
  ForChunks(pool, in.numel(), [&](int64_t first, int64_t count) {
    float buffer[kChunk];
    const float* x = source.At(first, count, buffer);
    uint32_t here = 0;
#pragma omp simd reduction(max : here)
    for (int64_t i = 0; i < count; ++i) here = std::max(here, MagnitudeBits(x[i]));
    uint32_t known = largest.load(std::memory_order_relaxed);
    while (known < here && !largest.compare_exchange_weak(known, here, std::memory_order_relaxed)) {
    }
  });
  return largest.load(std::memory_order_relaxed);
}

void QuantiseTensor(const ops::QuantiseFp8& o, ThreadPool& pool) {
  using ops::QuantiseFp8;
  const uint32_t largest =
      o.part == QuantiseFp8::kCodes ? static_cast<uint32_t>(o.largest.data<int32_t>()[0]) : LargestBits(o.in, pool);
  if (o.part == QuantiseFp8::kLargest) {
    o.largest.data<int32_t>()[0] = static_cast<int32_t>(largest);
    return;
  }
  const float scale = ops::rules::Fp8ScaleOf(largest, o.scaling.format);
  o.scaling.scales.data<float>()[0] = scale;
  const Source<float> source(o.in);
  uint8_t* codes = o.codes.data<uint8_t>();
  std::array<float, kChunk> factor;
  factor.fill(RoundingFactor(scale));
  ForChunks(pool, o.in.numel(), [&](int64_t first, int64_t count) {
    float buffer[kChunk];
    EncodeFp8(o.scaling.format, source.At(first, count, buffer), factor.data(), codes + first, count);
  });
}

// Rows [row, row + rows) and columns [column, column + columns), columns <= kChunk.
struct Fp8Tile {
  int64_t row, rows, column, columns;
};

// Chooses the scales of a tile, writes them, and sets the factor of each column.
void ChooseScales(const ops::QuantiseFp8& o, const Fp8Tile& tile, int64_t block_columns, float* factor) {
  const Source<float> source(o.in);
  const int64_t n = o.in.dim(1);
  uint32_t largest[kChunk] = {};
  for (int64_t i = tile.row; i < tile.row + tile.rows; ++i) {
    float buffer[kChunk];
    const float* x = source.At(i * n + tile.column, tile.columns, buffer);
#pragma omp simd
    for (int64_t j = 0; j < tile.columns; ++j) largest[j] = std::max(largest[j], MagnitudeBits(x[j]));
  }
  const BlockSize size = BlockSizeOf(o.scaling.blocks);
  float* scales = o.scaling.scales.data<float>() + tile.row / size.rows * o.scaling.scales.dim(1);
  for (int64_t j = 0; j < tile.columns; j += block_columns) {
    const int64_t end = std::min(j + block_columns, tile.columns);
    const float scale = ops::rules::Fp8ScaleOf(*std::max_element(largest + j, largest + end), o.scaling.format);
    scales[(tile.column + j) / block_columns] = scale;
    std::fill(factor + j, factor + end, RoundingFactor(scale));
  }
}

void QuantiseBlocks(const ops::QuantiseFp8& o, ThreadPool& pool) {
  const BlockSize size = BlockSizeOf(o.scaling.blocks);
  const int64_t m = o.in.dim(0), n = o.in.dim(1);
  const Source<float> source(o.in);
  uint8_t* codes = o.codes.data<uint8_t>();
  pool.ParallelForEach((m + size.rows - 1) / size.rows, RowGrain(size.rows * n), [&](int64_t stripe) {
    const int64_t row = stripe * size.rows, rows = std::min(size.rows, m - row);
    InChunks(0, n, [&](int64_t column, int64_t columns) {
      float factor[kChunk], buffer[kChunk];
      ChooseScales(o, {row, rows, column, columns}, size.columns, factor);
      for (int64_t i = row; i < row + rows; ++i) {
        const int64_t first = i * n + column;
        EncodeFp8(o.scaling.format, source.At(first, columns, buffer), factor, codes + first, columns);
      }
    });
  });
}

// What codes of one row stand for; `scale(j)`: the scale of column j, constant within blocks of `block` columns.
template <class Scale>
void DecodeRow(const std::array<float, 256>& table, const uint8_t* codes, int64_t n, int64_t block, Scale scale,
               float* out) {
  for (int64_t j = 0; j < n; j += block) {
    const float factor = scale(j / block);
    for (int64_t k = j; k < std::min(j + block, n); ++k) out[k] = table[codes[k]] * factor;
  }
}

}  // namespace

void Compute(const ops::QuantiseFp8& o, Context& c) {
  if (o.in.numel() == 0) return;
  if (o.scaling.blocks == Fp8Blocks::kTensor) return QuantiseTensor(o, c.pool);
  QuantiseBlocks(o, c.pool);
}

void DecodeFp8(const Tensor& codes, const ops::Fp8Scaling& scaling, float* out, ThreadPool& pool) {
  const int64_t m = codes.dim(0), n = codes.dim(1);
  const std::array<float, 256>& table = scaling.format == Fp8Format::kE4M3 ? kE4M3 : kE5M2;
  const float* scales = scaling.scales.data<float>();
  const uint8_t* from = codes.data<uint8_t>();
  const BlockSize size = BlockSizeOf(scaling.blocks);
  const bool one = scaling.blocks == Fp8Blocks::kTensor;
  pool.ParallelForEach(m, RowGrain(n), [&](int64_t i) {
    const float* row = one ? scales : scales + i / size.rows * scaling.scales.dim(1);
    DecodeRow(
        table, from + i * n, n, size.columns, [&](int64_t block) { return one ? row[0] : row[block]; }, out + i * n);
  });
}

}  // namespace twofold::cpu
