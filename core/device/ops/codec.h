// What gradient codecs are made of: a tensor is taken as a flat sequence, encoded into less, and decoded again.
//
//   * Sparse: the k elements of largest size (Aji and Heafield 2017; Lin et al. 2018, "Deep Gradient Compression"), or k drawn at
//     random, the same on every rank (Stich et al. 2018, "Sparsified SGD with Memory"): values and I32 places.
//   * 8 bits an element and a scale for each block (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization", section
//     2.1, with evenly spaced levels), rounded to the nearest or without bias (Alistarh et al. 2017, "QSGD").
//   * 1 bit an element and a scale for each block (Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; the scale is the mean size,
//     as in Karimireddy et al. 2019, "Error Feedback Fixes SignSGD", algorithm 1).
//
// Error feedback keeps what an encoding leaves out for the next step; an encoder writes it in the same pass: `residual` = in - decoded,
// of in's type, rounded once. It may be empty, and it may be `in`.
//
// Bits written are functions of `in` alone, not of how many threads or blocks wrote them.
#pragma once

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

// The k = values.numel() elements of largest size, in order of their places; of equal sizes those at lower places. NaN is larger than
// anything. Fewer than 2^31 elements. residual: `in` with 0 in those places.
struct TopK { Tensor in, values /*[k]*/, indices /*I32 [k]*/, residual; };

// k = out.numel() different places in [0, n): element i is the place of i in a permutation that the key draws. Every rank that has
// the key has the same ones.
struct RandomPlaces { Tensor out /*I32 [k]*/; int64_t n = 0; PhiloxKey key; };

// values[i] = in[indices[i]], of one float type.
struct GatherElements { Tensor in, indices /*I32 [k]*/, values /*[k]*/; };
// out[indices[i]] = values[i], or += values[i]; other elements stay. `values` may be empty: zeros. The indices differ from each other.
struct ScatterElements { Tensor values /*[k]*/, indices /*I32 [k]*/, out /*(acc)*/; bool accumulate = false; };

// For each block of kQuantBlock elements (the last may be shorter) scale = max |in| / 127, and a code for each element: 128 + in / scale
// rounded to nearest even, 1 to 255; or, `stochastic`, rounded down after adding UniformAt(key, where.Of(i)). A block without a finite
// maximum has it as its scale and decodes to no finite number; one whose maximum is below 4e-37 (F64: 1e-306) decodes to zeros.
struct Quantise {
  Tensor in, codes /*U8*/, scales /*(f32)[blocks]*/, residual;
  bool stochastic = false;
  PhiloxKey key;
  IndexMap where = {};
};
// out[i] = (codes[i] - 128) * scale of its block, or += that.
struct Dequantise { Tensor codes, scales, out /*(acc)*/; bool accumulate = false; };

// For each block of kSignBlock elements (the last may be shorter) scale = mean |in|; bit i % 8 of signs[i / 8] is 1 where in[i] < 0.
// Bits past the end are 0.
struct SignPack { Tensor in, signs /*U8 [(numel + 7) / 8]*/, scales /*(f32)[blocks]*/, residual; };
// out[i] = the scale of its block, negative where the bit is 1; or += that.
struct SignUnpack { Tensor signs, scales, out /*(acc)*/; bool accumulate = false; };

inline constexpr int64_t kQuantBlock = 256, kSignBlock = 1024;

namespace rules {
KernelKey Key(const TopK&);
Cost CostOf(const TopK&);
void CheckShapes(const TopK&);
Bytes CudaWorkspace(const TopK&);
KernelKey Key(const RandomPlaces&);
Cost CostOf(const RandomPlaces&);
void CheckShapes(const RandomPlaces&);
KernelKey Key(const GatherElements&);
Cost CostOf(const GatherElements&);
void CheckShapes(const GatherElements&);
KernelKey Key(const ScatterElements&);
Cost CostOf(const ScatterElements&);
void CheckShapes(const ScatterElements&);
KernelKey Key(const Quantise&);
Cost CostOf(const Quantise&);
void CheckShapes(const Quantise&);
KernelKey Key(const Dequantise&);
Cost CostOf(const Dequantise&);
void CheckShapes(const Dequantise&);
KernelKey Key(const SignPack&);
Cost CostOf(const SignPack&);
void CheckShapes(const SignPack&);
KernelKey Key(const SignUnpack&);
Cost CostOf(const SignUnpack&);
void CheckShapes(const SignUnpack&);

// How TopK goes about it, on any device. Sizes are compared as the bits of |x|, which order as the numbers do: digit by digit from the
// top, at most kTopKDigit bits at a time, the k-th largest is found by counting. On a GPU tiles of kTopKTile elements are written by
// blocks of their own.
inline constexpr int kTopKDigit = 11;
inline constexpr int64_t kTopKBins = int64_t{1} << kTopKDigit, kTopKTile = 4096;

// RandomPlaces: the place of i, i < n, in the key's permutation of [0, n): six rounds of a Feistel network (Luby and Rackoff 1988)
// over the least even number of bits that hold n, walked until it falls below n (Black and Rogaway 2002, "cycle walking").
constexpr int64_t PlaceOf(int64_t i, int64_t n, PhiloxKey key) {
  int half = 1;
  while (half < 31 && (int64_t{1} << (2 * half)) < n) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t at = static_cast<uint64_t>(i);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint64_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (MakeKey(key.value, round << 32 | right).value >> 32 & mask);
      left = right, right = mixed;
    }
    at = left << half | right;
  } while (at >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(at);
}
}  // namespace rules

}  // namespace twofold::ops
