// Random numbers by their places in a key's sequence (core/base/philox.h), for elements that are neighbours. For .cu files only.
#pragma once

#include "core/base/philox.h"
#include "core/device/ops/op.h"
#include "kernels/cuda/numbers.h"

namespace twofold::cuda {

// Lane `i` of a counter's four numbers, which stay in registers.
__device__ inline uint32_t LaneOf(const std::array<uint32_t, 4>& four, uint64_t i) {
  const uint32_t low = (i & 1) != 0 ? four[1] : four[0], high = (i & 1) != 0 ? four[3] : four[2];
  return (i & 2) != 0 ? high : low;
}

// The numbers of local elements [first, first + N).
template <int N>
__device__ inline void Draw(PhiloxKey key, const ops::IndexMap& where, int64_t first, uint32_t (&bits)[N]) {
  const auto place = static_cast<uint64_t>(where.Of(first));
  if (N > 1 && where.RunFrom(first, N) < N) {  // they lie apart
    for (int i = 0; i < N; ++i) {
      const auto at = static_cast<uint64_t>(where.Of(first + i));
      bits[i] = LaneOf(Philox(key, at / 4), at);
    }
  } else if (N % 4 == 0 && place % 4 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const std::array<uint32_t, 4> four = Philox(key, place / 4 + static_cast<uint64_t>(i / 4));
#pragma unroll
      for (int k = 0; k < 4 && i + k < N; ++k) bits[i + k] = four[static_cast<size_t>(k)];
    }
  } else {
    std::array<uint32_t, 4> four = Philox(key, place / 4);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint64_t at = place + static_cast<uint64_t>(i);
      if (i > 0 && at % 4 == 0) four = Philox(key, at / 4);
      bits[i] = LaneOf(four, at);
    }
  }
}

}  // namespace twofold::cuda
