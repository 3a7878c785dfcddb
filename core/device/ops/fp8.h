// Matrices in 8-bit floating point, as products read them.
//
//   E4M3  4 bits of exponent, 3 of fraction: up to 448, smallest normal number 2^-6, smallest 2^-9; no infinities
//   E5M2  5 bits of exponent, 2 of fraction: up to 57344, smallest normal number 2^-14, smallest 2^-16
// "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, 2023, sections 5.1 to 5.3; Micikevicius et al. 2022,
// "FP8 Formats for Deep Learning", section 3. A number is rounded to the nearest code, ties to the even one. Beyond the
// largest number it becomes that number (saturation); NaN becomes the code 0x7f.
//
// A matrix is its codes and scales: element (i, j) is FromFp8(code) times the scale of the block that holds it. Scales
// are powers of two, as Transformer Engine and DeepSeek-V3 offer them and OCP MX has them. So scaling does not round,
// decoded elements are exact in F32, and where a tensor is split changes only what underflows.
#pragma once

#include <array>
#include <bit>
#include <cmath>

#include "core/device/ops/op.h"

namespace twofold::ops {

enum class Fp8Format : uint8_t { kE4M3, kE5M2 };

// The elements that share a scale. The last block of a row or column may be smaller.
enum class Fp8Blocks : uint8_t {
  kTensor,  // all
  kRow,     // 1 x 128
  kColumn,  // 128 x 1
  kSquare,  // 128 x 128
};
inline constexpr int64_t kFp8Block = 128;

// How the codes of a matrix [m, n] are to be read. Without scales, a tensor is not FP8.
struct Fp8Scaling {
  Tensor scales = {} /*F32 [Fp8Scales]*/;
  Fp8Format format = Fp8Format::kE4M3;
  Fp8Blocks blocks = Fp8Blocks::kTensor;
  bool empty() const { return scales.empty(); }
};
Shape Fp8Scales(Fp8Blocks blocks, int64_t m, int64_t n);  // kTensor: [1, 1]

// Chooses the scale of each block, and rounds in / scale to codes. The scale is the smallest power of two, but at least
// 2^-100, with which the block's largest magnitude does not exceed the format's largest number; it is 1 if all elements
// are 0. If an element of a block is not finite, the scale is the largest magnitude (NaN counts as the largest) and all
// codes of the block are 0x7f, so the whole block decodes to numbers that are not finite. Codes and scales are the same
// bits on every device.
struct QuantiseFp8 {
  Tensor in /*F32, BF16 or F16 [m, n]*/, codes /*U8 [m, n]*/;
  Fp8Scaling scaling /*of the codes*/;
  // Half of it, with kTensor: where `in` is a part of a tensor, ranks agree on the largest magnitude in between.
  enum Part : uint8_t {
    kBoth,
    kLargest,  // only finds the largest magnitude; no codes and no scales
    kCodes     // the scale that follows from a magnitude, and the codes
  } part = kBoth;
  Tensor largest = {} /*I32 [1, 1]: a magnitude's bits as F32, so that NaN is above infinity*/;
};

namespace rules {

// A GPU finds the largest magnitude of a whole tensor in parts, at most kFp8Parts, whose maxima are in the workspace.
inline constexpr int64_t kFp8Parts = 1024;
int64_t CudaFp8Parts(int64_t elements);
Bytes CudaWorkspace(const QuantiseFp8&);

struct Fp8Numbers {
  int fraction_bits;   // of a code
  int least_exponent;  // of normal numbers
  uint8_t largest;     // code of the largest number
  uint8_t nan;
};
constexpr Fp8Numbers NumbersOf(Fp8Format format) {
  return format == Fp8Format::kE4M3 ? Fp8Numbers{3, -6, 0x7e, 0x7f} : Fp8Numbers{2, -14, 0x7b, 0x7f};
}

// The code nearest to x; ties to the even code. Magnitudes above the largest number, infinities included, become it.
template <Fp8Format kFormat>
constexpr uint8_t ToFp8(float x) {
  constexpr Fp8Numbers kNumbers = NumbersOf(kFormat);
  constexpr int kDropped = 23 - kNumbers.fraction_bits;
  constexpr uint32_t kLeastNormal = static_cast<uint32_t>(127 + kNumbers.least_exponent) << 23;
  // Adding 2^23 units of the smallest number leaves the sum's last bit worth one of these units.
  constexpr uint32_t kShift = static_cast<uint32_t>(127 + kNumbers.least_exponent - kNumbers.fraction_bits + 23) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const bool nan = magnitude > 0x7f800000u;
  const uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1) + ((magnitude >> kDropped) & 1);
  const uint32_t normal = ((rounded - kLeastNormal) >> kDropped) + (1u << kNumbers.fraction_bits);
  const uint32_t tiny =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + std::bit_cast<float>(kShift)) - kShift;
  uint32_t code = magnitude < kLeastNormal ? tiny : normal;
  code = code > kNumbers.largest ? kNumbers.largest : code;
  code |= (bits >> 24) & 0x80u;
  return static_cast<uint8_t>(nan ? kNumbers.nan : code);  // devices differ in the sign of a NaN
}

// The number that a code stands for.
constexpr float FromFp8(uint8_t code, Fp8Format format) {
  const Fp8Numbers n = NumbersOf(format);
  const uint32_t magnitude = code & 0x7fu, fraction = magnitude & ((1u << n.fraction_bits) - 1),
                 exponent = magnitude >> n.fraction_bits, sign = static_cast<uint32_t>(code & 0x80) << 24;
  if (magnitude > n.largest) {  // NaN, or an infinity of E5M2
    const uint32_t special = format == Fp8Format::kE5M2 && fraction == 0 ? 0x7f800000u : 0x7fc00000u;
    return std::bit_cast<float>(sign | special);
  }
  if (exponent == 0) {
    const float unit = std::bit_cast<float>(static_cast<uint32_t>(127 + n.least_exponent - n.fraction_bits) << 23);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(fraction) * unit));
  }
  const uint32_t biased = exponent + static_cast<uint32_t>(126 + n.least_exponent);
  return std::bit_cast<float>(sign | biased << 23 | fraction << (23 - n.fraction_bits));
}

constexpr std::array<float, 256> Fp8Table(Fp8Format format) {
  std::array<float, 256> table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = FromFp8(static_cast<uint8_t>(i), format);
  return table;
}

// The scale of a block whose largest magnitude, as the bits of an F32, is `largest`: see QuantiseFp8.
constexpr float Fp8ScaleOf(uint32_t largest, Fp8Format format) {
  constexpr int kLeast = -100;
  if (largest == 0) return 1;
  if (largest >= 0x7f800000u) return std::bit_cast<float>(largest > 0x7f800000u ? 0x7fc00000u : largest);
  // Both formats' largest number is 1.75 * 2^top.
  const int top = format == Fp8Format::kE4M3 ? 8 : 15, exponent = static_cast<int>(largest >> 23) - 127;
  const int scale = exponent - top + ((largest & 0x7fffffu) > 0x600000u ? 1 : 0);
  return std::bit_cast<float>(static_cast<uint32_t>(127 + (scale < kLeast ? kLeast : scale)) << 23);
}

}  // namespace rules

}  // namespace twofold::ops
