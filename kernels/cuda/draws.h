// Random numbers by their position in a key's sequence (core/base/philox.h), for neighbouring elements. For .cu files
// only.
#pragma once

#include <algorithm>

#include "core/base/philox.h"
#include "core/device/ops/op.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {

// where.Of(i), without a dynamically indexed array.
__device__ inline uint64_t PlaceIn(const ops::IndexMap& where, int64_t i) {
  i += where.first;
  if (where.block == 0) return static_cast<uint64_t>(where.offset[0] + i);
  const int64_t b = i / where.block, in_block = i - b * where.block;
  if (where.blocks == 1) return static_cast<uint64_t>(b * where.stride + where.offset[0] + in_block);
  return static_cast<uint64_t>(b / 2 * where.stride + (b % 2 == 0 ? where.offset[0] : where.offset[1]) + in_block);
}

// Number `i` of the four numbers of a counter, selected without leaving registers.
__device__ inline uint32_t LaneOf(const std::array<uint32_t, 4>& four, uint64_t i) {
  const uint32_t low = (i & 1) != 0 ? four[1] : four[0], high = (i & 1) != 0 ? four[3] : four[2];
  return (i & 2) != 0 ? high : low;
}

// Whether the elements [i, i + pack), for every multiple i of `pack` (a power of two), are contiguous and use the
// fewest possible counters.
inline bool DrawsFit(int64_t pack, const ops::IndexMap& where, int64_t draws_of_counter = 4) {
  const int64_t together = std::min(pack, draws_of_counter);
  if (where.block == 0) return (where.first + where.offset[0]) % together == 0;
  return where.block % pack == 0 && where.first % pack == 0 && where.stride % together == 0 &&
         where.offset[0] % together == 0 && where.offset[1] % together == 0;
}

// Draws the numbers of local elements [first, first + N). N is 1 or satisfies DrawsFit(N, where), and `first` is a
// multiple of N.
template <int N>
__device__ inline void Draw(PhiloxKey key, const ops::IndexMap& where, int64_t first, uint32_t (&bits)[N]) {
  const uint64_t place = PlaceIn(where, first);
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const std::array<uint32_t, 4> four = Philox(key, place / 4 + static_cast<uint64_t>(i / 4));
#pragma unroll
    for (int k = 0; k < std::min(N, 4); ++k)
      bits[i + k] = N >= 4 ? four[static_cast<size_t>(k)] : LaneOf(four, place + static_cast<uint64_t>(k));
  }
}

// The same for halves of numbers (HalfAt). N is 1 or satisfies DrawsFit(N, where, 8).
template <int N>
__device__ inline void DrawHalves(PhiloxKey key, const ops::IndexMap& where, int64_t first, uint16_t (&halves)[N]) {
  const uint64_t place = PlaceIn(where, first);
#pragma unroll
  for (int i = 0; i < N; i += 8) {
    const std::array<uint32_t, 4> four = Philox(key, place / 8 + static_cast<uint64_t>(i / 8));
#pragma unroll
    for (int k = 0; k < std::min(N, 8); ++k) {
      const uint64_t at = place + static_cast<uint64_t>(k);
      const uint32_t number = N >= 8 ? four[static_cast<size_t>(k / 2)] : LaneOf(four, at / 2);
      halves[i + k] = static_cast<uint16_t>(number >> (at % 2 * 16));
    }
  }
}

}  // namespace twofold::cuda
