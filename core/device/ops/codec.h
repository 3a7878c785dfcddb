// The building blocks of gradient codecs. A tensor is treated as a flat sequence, encoded into fewer bytes, and decoded
// again.
//
//   * Sparse: the k elements of largest magnitude (Aji and Heafield 2017; Lin et al. 2018, "Deep Gradient
//     Compression"), or k elements drawn at random, the same on every rank (Stich et al. 2018, "Sparsified SGD with
//     Memory"). Encoded as values and I32 indices.
//   * 8 or 4 bits per element and a scale per block (Dettmers et al. 2022, "8-bit Optimizers via Block-wise
//   Quantization",
//     section 2.1, with evenly spaced levels), rounded to nearest, or stochastically without bias (Alistarh et al.
//     2017, "QSGD").
//   * 1 bit per element and a scale per block (Seide et al. 2014, "1-Bit Stochastic Gradient Descent"; the scale is the
//     mean magnitude, as in Karimireddy et al. 2019, "Error Feedback Fixes SignSGD", algorithm 1).
//
// Error feedback keeps the encoding error for the next step. The encoder writes it in the same pass: `residual` = in -
// decoded, in in's type, rounded once. It may be empty, and it may be `in`.
//
// Encoded bits depend only on `in`, not on the number of threads or blocks.
#pragma once

#include "core/base/philox.h"
#include "core/device/ops/op.h"

namespace twofold::ops {

// The k = values.numel() elements of largest magnitude, in order of their indices. Ties go to the lower index. NaN is
// larger than any number. `in` must have fewer than 2^31 elements. residual: `in` with 0 at the chosen indices.
struct TopK {
  Tensor in, values /*[k]*/, indices /*I32 [k]*/, residual;
};

// k = out.numel() different indices in [0, n). Element i is the image of i under a permutation that is determined by
// the key. Every rank with the same key gets the same indices.
struct RandomPlaces {
  Tensor out /*I32 [k]*/;
  int64_t n = 0;
  PhiloxKey key;
};

// values[i] = in[indices[i]]. Both have the same float type.
struct GatherElements {
  Tensor in, indices /*I32 [k]*/, values /*[k]*/;
};
// out[indices[i]] = values[i], or += values[i]. Other elements are unchanged. If `values` is empty, zeros are written.
// The indices must be distinct.
struct ScatterElements {
  Tensor values /*[k]*/, indices /*I32 [k]*/, out /*(acc)*/;
  bool accumulate = false;
};

// For each block of elements (the last may be shorter): scale = max |in| / L with L = 127 levels (4 bits: 7) on either
// side of zero, and for each element a code: L + 1 + in / scale rounded to nearest even, from 1 to 2 L + 1. With
// `stochastic`, rounded down after adding HalfToUniform(HalfAt(key, where.Of(i))). If the maximum of a block is not
// finite, it is stored as the scale, and the block decodes to non-finite numbers. If it is below 4e-37 (F64: 1e-306),
// the block decodes to zeros. A code of 8 bits is a byte. Two codes of 4 bits share one, the first in the lower half;
// what no code fills is 0.
struct Quantise {
  Tensor in, codes /*U8 [CodeBytes(numel, bits)]*/, scales /*(f32)[blocks]*/, residual;
  bool stochastic = false;
  PhiloxKey key;
  IndexMap where = {};
  int bits = 8;         // 4 or 8
  int64_t block = 256;  // 256, 512 or 1024
};
// out[i] = (code i - L - 1) * scale of its block, or += that value.
struct Dequantise {
  Tensor codes, scales, out /*(acc)*/;
  bool accumulate = false;
  int bits = 8;
  int64_t block = 256;
};
constexpr int64_t CodeBytes(int64_t numel, int bits) { return (numel * bits + 7) / 8; }

// For each block of kSignBlock elements (the last may be shorter): scale = mean |in|, and bit i % 8 of signs[i / 8] is
// 1 if in[i] < 0. Bits past the end are 0.
struct SignPack {
  Tensor in, signs /*U8 [(numel + 7) / 8]*/, scales /*(f32)[blocks]*/, residual;
};
// out[i] = the scale of its block, negated if the bit is 1. Or += that value.
struct SignUnpack {
  Tensor signs, scales, out /*(acc)*/;
  bool accumulate = false;
};

// Makes the columns of x orthonormal, from the first to the last (modified Gram-Schmidt; Golub and Van Loan, "Matrix
// Computations", section 5.2.8). Every column is made orthogonal to those before it a second time. If it shrinks to
// less than half by that, or was 0, it depends on them ("twice is enough": Giraud et al. 2005, "Rounding error analysis
// of the classical Gram-Schmidt orthogonalization process"). It is then replaced by OrthogonaliseDraw, made orthogonal
// in the same way. n must be at least r. Sums are F64.
struct Orthogonalise {
  Tensor x /*F32 or F64, [n, r]*/;
};

inline constexpr int64_t kSignBlock = 1024;

namespace rules {
Bytes CudaWorkspace(const TopK&);

// Element (i, j) of what replaces a column, in [-1, 1).
constexpr float OrthogonaliseDraw(int64_t i, int64_t j) {
  return 2 * ToUniform(Philox(MakeKey(static_cast<uint64_t>(j), "orthogonalise"), static_cast<uint64_t>(i))[0]) - 1;
}

// The algorithm of TopK, on any device. Magnitudes are compared as the bits of |x|, which have the same order as the
// numbers. The k-th largest is found by counting, digit by digit from the top, with at most kTopKDigit bits per digit.
// On a GPU each tile of kTopKTile elements is written by a block of its own.
inline constexpr int kTopKDigit = 11;
inline constexpr int64_t kTopKBins = int64_t{1} << kTopKDigit, kTopKTile = 4096;

// RandomPlaces: the image of i, i < n, under the key's permutation of [0, n): six rounds of a Feistel network (Luby and
// Rackoff 1988) over the smallest even number of bits that holds n, repeated until the result is below n (Black and
// Rogaway 2002, "cycle walking").
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
