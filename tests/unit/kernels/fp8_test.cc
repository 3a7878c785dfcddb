// FP8: all codes and every boundary between them, scales, rounding of whole matrices, and products of FP8 operands.
#include <cmath>
#include <limits>
#include <optional>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace fp8_test {

using ops::Fp8Blocks, ops::Fp8Format, ops::Fp8Scaling;
using ops::rules::FromFp8, ops::rules::NumbersOf;

constexpr Fp8Format kFormats[] = {Fp8Format::kE4M3, Fp8Format::kE5M2};
constexpr Fp8Blocks kBlocks[] = {Fp8Blocks::kTensor, Fp8Blocks::kRow, Fp8Blocks::kColumn, Fp8Blocks::kSquare};
constexpr DType kNarrow[] = {DType::kF32, DType::kBF16, DType::kF16};

uint8_t ToCode(float x, Fp8Format format) {
  return format == Fp8Format::kE4M3 ? ops::rules::ToFp8<Fp8Format::kE4M3>(x) : ops::rules::ToFp8<Fp8Format::kE5M2>(x);
}

// ---- One number ----

// What a code stands for, from the bits as the specification's table 1 reads them; nothing: NaN or an infinity.
std::optional<double> Plain(int code, Fp8Format format) {
  const int fraction_bits = format == Fp8Format::kE4M3 ? 3 : 2, bias = format == Fp8Format::kE4M3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> fraction_bits, fraction = code & ((1 << fraction_bits) - 1);
  if (format == Fp8Format::kE4M3 && (code & 0x7f) == 0x7f) return std::nullopt;
  if (format == Fp8Format::kE5M2 && exponent == 31) return std::nullopt;
  const double part = static_cast<double>(fraction) / (1 << fraction_bits);
  const double size = exponent == 0 ? std::ldexp(part, 1 - bias) : std::ldexp(1 + part, exponent - bias);
  return code >= 0x80 ? -size : size;
}

TEST(Fp8, NumbersOfTheSpecification) {
  const auto e4m3 = [](uint8_t code) { return FromFp8(code, Fp8Format::kE4M3); };
  const auto e5m2 = [](uint8_t code) { return FromFp8(code, Fp8Format::kE5M2); };
  EXPECT_EQ(e4m3(0b0'1111'110), 448);
  EXPECT_EQ(e4m3(0b0'0001'000), 0x1p-6);
  EXPECT_EQ(e4m3(0b0'0000'111), 0.875 * 0x1p-6);
  EXPECT_EQ(e4m3(0b1'0000'001), -0x1p-9);
  EXPECT_TRUE(std::isnan(e4m3(0b0'1111'111)));
  EXPECT_EQ(e5m2(0b0'11110'11), 57344);
  EXPECT_EQ(e5m2(0b0'00001'00), 0x1p-14);
  EXPECT_EQ(e5m2(0b1'00000'01), -0x1p-16);
  EXPECT_EQ(e5m2(0b1'11111'00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(e5m2(0b0'11111'01)));
}

TEST(Fp8, EveryCodeIsReadAndWrittenBack) {
  for (const Fp8Format format : kFormats) {
    const auto table = ops::rules::Fp8Table(format);
    for (int code = 0; code < 256; ++code) {
      const float value = table[static_cast<size_t>(code)];
      const std::optional<double> want = Plain(code, format);
      if (!want) {
        EXPECT_FALSE(std::isfinite(value)) << code;
        continue;
      }
      EXPECT_EQ(value, *want) << code;
      EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
      EXPECT_EQ(ToCode(value, format), code);
    }
  }
}

// Between neighbours the nearer code is taken, at the middle the even one, up to the last F32 on either side.
TEST(Fp8, EveryBoundaryIsWhereItBelongs) {
  constexpr float kUp = std::numeric_limits<float>::infinity();
  for (const Fp8Format format : kFormats) {
    const uint8_t largest = NumbersOf(format).largest;
    for (int code = 0; code < largest; ++code) {
      const auto next = static_cast<uint8_t>(code + 1);
      const auto middle = static_cast<float>((*Plain(code, format) + *Plain(next, format)) / 2);
      for (const int sign : {0, 0x80}) {
        const auto at = [&](float x) { return ToCode(sign == 0 ? x : -x, format) ^ sign; };
        EXPECT_EQ(at(std::nextafter(middle, -kUp)), code) << code;
        EXPECT_EQ(at(middle), code % 2 == 0 ? code : next) << code;
        EXPECT_EQ(at(std::nextafter(middle, kUp)), next) << code;
        EXPECT_EQ(at(std::nextafter(static_cast<float>(*Plain(next, format)), -kUp)), next) << code;
      }
    }
    for (const float beyond : {std::nextafter(static_cast<float>(*Plain(largest, format)), kUp), 1e30f, kUp}) {
      EXPECT_EQ(ToCode(beyond, format), largest);
      EXPECT_EQ(ToCode(-beyond, format), largest | 0x80);
    }
    EXPECT_TRUE(std::isnan(FromFp8(ToCode(std::nanf(""), format), format)));
    EXPECT_EQ(ToCode(std::numeric_limits<float>::denorm_min(), format), 0);
    EXPECT_EQ(ToCode(-0.0f, format), 0x80);
  }
}

TEST(Fp8, ScalesAreTheSmallestPowersOfTwoThatFit) {
  constexpr float kFirst = 0x1p-80f, kLast = 0x1p126f;
  for (const Fp8Format format : kFormats) {
    const float most = FromFp8(NumbersOf(format).largest, format);
    const auto scale_of = [&](float x) { return ops::rules::Fp8ScaleOf(std::bit_cast<uint32_t>(x), format); };
    for (float power = kFirst; power < kLast; power *= 2) {
      const float boundary = 1.75f * power;
      for (const float x : {power, 1.5f * power, std::nextafter(boundary, 0.0f), boundary,
                            std::nextafter(boundary, 2 * boundary), std::nextafter(2 * power, 0.0f)}) {
        const float scale = scale_of(x);
        int exponent = 0;
        EXPECT_EQ(std::frexp(scale, &exponent), 0.5f) << x;
        EXPECT_LE(x / scale, most) << x;
        EXPECT_GT(x / (scale / 2), most) << x;
      }
    }
    EXPECT_EQ(scale_of(0), 1);
    EXPECT_EQ(scale_of(std::numeric_limits<float>::denorm_min()), 0x1p-100f);
    EXPECT_LE(std::numeric_limits<float>::max() / scale_of(std::numeric_limits<float>::max()), most);
    EXPECT_FALSE(std::isfinite(scale_of(std::numeric_limits<float>::infinity())));
  }
}

// ---- A matrix ----

struct Quantised {
  Tensor codes;
  Fp8Scaling scaling;
};
Quantised Quantise(Lab& lab, const Tensor& in, Fp8Format format, Fp8Blocks blocks) {
  Quantised q{lab.Blank(in.shape(), DType::kU8),
              {lab.Blank(ops::Fp8Scales(blocks, in.dim(0), in.dim(1)), DType::kF32), format, blocks}};
  lab.Run(ops::QuantiseFp8{.in = in, .codes = q.codes, .scaling = q.scaling});
  return q;
}

// The place of element (i, j)'s scale among the scales.
size_t ScaleAt(const Fp8Scaling& s, int64_t i, int64_t j) {
  const bool rows = s.blocks == Fp8Blocks::kColumn || s.blocks == Fp8Blocks::kSquare,
             columns = s.blocks == Fp8Blocks::kRow || s.blocks == Fp8Blocks::kSquare;
  if (s.blocks == Fp8Blocks::kTensor) return 0;
  return At((rows ? i / 128 : i) * s.scales.dim(1) + (columns ? j / 128 : j));
}

// What the codes stand for, one by one.
Values Read(const Quantised& q) {
  const Values scales = ValuesOf(q.scaling.scales);
  const auto* codes = static_cast<const uint8_t*>(q.codes.raw());
  Values values;
  for (int64_t i = 0; i < q.codes.dim(0); ++i) {
    for (int64_t j = 0; j < q.codes.dim(1); ++j) {
      const std::optional<double> number = Plain(codes[i * q.codes.dim(1) + j], q.scaling.format);
      const double scale = scales[ScaleAt(q.scaling, i, j)];
      values.push_back(number ? *number * scale : std::numeric_limits<double>::quiet_NaN());
    }
  }
  return values;
}

// Magnitudes that differ much from block to block, and a block of zeros.
Tensor Uneven(Lab& lab, int64_t m, int64_t n, DType t) {
  Values values = ValuesOf(lab.Normal({m, n}, DType::kF64));
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / n, column = static_cast<int64_t>(i) % n;
    values[i] = row / 128 == 1 && column / 128 == 1
                    ? 0
                    : std::ldexp(values[i], static_cast<int>((row / 64 + column / 96) % 7) - 5);
  }
  return lab.Of({m, n}, t, values);
}

// Each scale is that of its block's largest element, each code that of its element over the scale.
void ExpectQuantised(const Tensor& in, const Quantised& q) {
  const Values values = ValuesOf(in), scales = ValuesOf(q.scaling.scales);
  const int64_t n = in.dim(1);
  std::vector<float> largest(scales.size());
  const auto place = [&](size_t i) {
    return ScaleAt(q.scaling, static_cast<int64_t>(i) / n, static_cast<int64_t>(i) % n);
  };
  for (size_t i = 0; i < values.size(); ++i)
    largest[place(i)] = std::max(largest[place(i)], std::abs(static_cast<float>(values[i])));
  for (size_t b = 0; b < scales.size(); ++b) {
    ASSERT_EQ(scales[b], ops::rules::Fp8ScaleOf(std::bit_cast<uint32_t>(largest[b]), q.scaling.format))
        << "block " << b;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const auto scaled = static_cast<float>(values[i] / scales[place(i)]);
    ASSERT_EQ(static_cast<const uint8_t*>(q.codes.raw())[i], ToCode(scaled, q.scaling.format)) << "element " << i;
  }
}

constexpr int64_t kShapes[][2] = {{1, 1}, {1, 300}, {130, 1}, {5, 127}, {128, 128}, {129, 257}, {130, 1060}};

TEST(QuantiseFp8, ByBlockAndByTensor) {
  for (const Fp8Format format : kFormats) {
    for (const Fp8Blocks blocks : kBlocks) {
      for (const DType t : kNarrow) {
        for (const auto& [m, n] : kShapes) {
          SCOPED_TRACE(Name(t) + " " + std::to_string(m) + "x" + std::to_string(n));
          std::string first;
          for (const int threads : {1, 3}) {
            for (const int64_t offset : {0, 3}) {
              Lab lab(threads, offset);
              const Tensor in = Uneven(lab, m, n, t);
              const Quantised q = Quantise(lab, in, format, blocks);
              ExpectQuantised(in, q);
              if (HasFatalFailure()) return;
              const std::string bits = BitsOf(q.codes) + BitsOf(q.scaling.scales);
              if (first.empty()) first = bits;
              EXPECT_TRUE(bits == first) << threads << " threads";
            }
          }
        }
      }
    }
  }
}

// Two halves: the largest magnitude, then the codes with the scale of a magnitude, which may be larger.
TEST(QuantiseFp8, InTwoHalves) {
  using ops::QuantiseFp8;
  for (const Fp8Format format : kFormats) {
    for (const DType t : kNarrow) {
      Lab lab(2, 3);
      const Tensor in = Uneven(lab, 37, 150, t), largest = lab.Blank({1, 1}, DType::kI32);
      const Quantised q = Quantise(lab, in, format, Fp8Blocks::kTensor);
      const Quantised halves{lab.Blank(in.shape(), DType::kU8),
                             {lab.Blank({1, 1}, DType::kF32), format, Fp8Blocks::kTensor}};
      const auto round = [&] {
        lab.Run(QuantiseFp8{.in = in,
                            .codes = halves.codes,
                            .scaling = halves.scaling,
                            .part = QuantiseFp8::kCodes,
                            .largest = largest});
      };
      lab.Run(QuantiseFp8{.in = in, .codes = {}, .scaling = {}, .part = QuantiseFp8::kLargest, .largest = largest});
      round();
      EXPECT_EQ(BitsOf(halves.scaling.scales), BitsOf(q.scaling.scales));
      EXPECT_EQ(BitsOf(halves.codes), BitsOf(q.codes));
      const float found = std::bit_cast<float>(largest.data<int32_t>()[0]);
      largest.data<int32_t>()[0] = std::bit_cast<int32_t>(8 * found);
      round();
      EXPECT_EQ(halves.scaling.scales.data<float>()[0], 8 * q.scaling.scales.data<float>()[0]);
      const Values read = Read(halves), values = ValuesOf(in);
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(read[i], values[i], std::abs(values[i]) / 8 + 8 * q.scaling.scales.data<float>()[0]) << i;
      largest.data<int32_t>()[0] = std::bit_cast<int32_t>(std::numeric_limits<float>::quiet_NaN());
      round();
      EXPECT_EQ(BitsOf(halves.codes), std::string(static_cast<size_t>(in.numel()), '\x7f'));
    }
  }
}

// E4M3 has 3 bits of fraction: the error is at most 1/16 of an element within 2^14 of its block's largest.
TEST(QuantiseFp8, ErrorsAreThoseOfThreeBits) {
  Lab lab(1, 0);
  const Tensor in = lab.Normal({64, 512}, DType::kF32);
  const Values values = ValuesOf(in);
  for (const Fp8Blocks blocks : kBlocks) {
    const Values read = Read(Quantise(lab, in, Fp8Format::kE4M3, blocks));
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::abs(values[i]) > 1e-2) largest = std::max(largest, std::abs(read[i] / values[i] - 1));
    }
    EXPECT_LE(largest, 1 / 16.0);
    EXPECT_GT(largest, 1 / 20.0);
  }
}

// Overflow is not saturated away: loss scaling must see it. Other blocks are as they were.
TEST(QuantiseFp8, WhatIsNotFiniteSpoilsItsBlockAlone) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    for (const Fp8Blocks blocks : kBlocks) {
      Lab lab(1, 0);
      const Tensor in = lab.Normal({256, 256}, DType::kF32);
      Values values = ValuesOf(in);
      values[At(130 * 256 + 5)] = -bad;
      const Quantised q = Quantise(lab, lab.Of({256, 256}, DType::kF32, values), Fp8Format::kE5M2, blocks);
      Tensor decoded = lab.Blank({256, 256}, DType::kF32), identity = lab.Of({256, 256}, DType::kF32, Values(65536));
      for (int64_t i = 0; i < 256; ++i) identity.data<float>()[i * 257] = 1;
      const Quantised one = Quantise(lab, identity, Fp8Format::kE4M3, Fp8Blocks::kTensor);
      lab.Run(
          ops::MatMul{.a = one.codes, .b = q.codes, .out = decoded, .a_scaling = one.scaling, .b_scaling = q.scaling});
      EXPECT_FALSE(std::isfinite(ValuesOf(decoded)[At(130 * 256 + 5)]));
      const size_t block = ScaleAt(q.scaling, 130, 5);
      const Values read = Read(q), scales = ValuesOf(q.scaling.scales);
      for (int64_t i = 0; i < 256; ++i) {
        for (int64_t j = 0; j < 256; ++j) {
          const double value = read[At(i * 256 + j)];
          EXPECT_EQ(std::isfinite(value), ScaleAt(q.scaling, i, j) != block) << i << ", " << j;
        }
      }
      for (size_t b = 0; b < scales.size(); ++b) EXPECT_EQ(std::isfinite(scales[b]), b != block);
    }
  }
}

// ---- Products ----

struct Options {
  int64_t m, n, k;
  DType out;
  bool transpose_a, transpose_b, accumulate, bias;
  ops::MatMul::Epilogue epilogue = ops::MatMul::kNone;
};

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

std::vector<Expected> Check(Lab& lab, const Options& o, Fp8Format format, Fp8Blocks blocks_a, Fp8Blocks blocks_b) {
  const Tensor float_a = Uneven(lab, o.transpose_a ? o.k : o.m, o.transpose_a ? o.m : o.k, DType::kBF16);
  const Tensor float_b = Uneven(lab, o.transpose_b ? o.n : o.k, o.transpose_b ? o.k : o.n, DType::kF32);
  const Quantised a = Quantise(lab, float_a, format, blocks_a), b = Quantise(lab, float_b, Fp8Format::kE4M3, blocks_b);
  const Tensor bias = o.bias ? lab.Normal({o.n}, o.out) : Tensor();
  const Tensor out = lab.Output({o.m, o.n}, o.out, o.accumulate);
  const bool gelu = o.epilogue == ops::MatMul::kGelu;
  const Tensor aux = gelu ? lab.Blank({o.m, o.n}, o.out) : Tensor();
  const Values of_a = Read(a), of_b = Read(b), old = ValuesOf(out), of_bias = o.bias ? ValuesOf(bias) : Values();
  lab.Run(ops::MatMul{a.codes, b.codes, out, bias, o.transpose_a, o.transpose_b, o.accumulate, o.epilogue, aux,
                      a.scaling, b.scaling});
  Values want(At(o.m * o.n)), activated(want.size());
  double scale = 2;
  for (int64_t i = 0; i < o.m; ++i) {
    for (int64_t j = 0; j < o.n; ++j) {
      double sum = (o.bias ? of_bias[At(j)] : 0) + (o.accumulate ? old[At(i * o.n + j)] : 0), size = 2;
      for (int64_t l = 0; l < o.k; ++l) {
        const double term =
            of_a[At(o.transpose_a ? l * o.m + i : i * o.k + l)] * of_b[At(o.transpose_b ? j * o.k + l : l * o.n + j)];
        sum += term, size += std::abs(term);
      }
      want[At(i * o.n + j)] = sum, activated[At(i * o.n + j)] = Gelu(sum);
      scale = std::max(scale, size);
    }
  }
  if (!gelu) return {{out, want, scale}};
  return {{aux, want, scale}};
}

TEST(Fp8Product, AgainstPlainLoopsOnTheDecodedOperands) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 7, 5}, {17, 140, 129}, {130, 9, 135}};
  for (const Fp8Format format : kFormats) {
    for (const DType out : kNarrow) {
      for (const auto& [m, n, k] : sizes) {
        for (int bits = 0; bits < 16; ++bits) {
          const Options o{m, n, k, out, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
          const auto a = kBlocks[bits % 4], b = kBlocks[(bits / 4 + bits) % 4];
          Verify("product to " + Name(out) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" +
                     std::to_string(k) + " variant " + std::to_string(bits),
                 [&](Lab& lab) { return Check(lab, o, format, a, b); });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Fp8Product, WithGelu) {
  for (const DType out : kNarrow) {
    const Options o{33, 140, 129, out, false, true, false, true, ops::MatMul::kGelu};
    Verify("gelu " + Name(out),
           [&](Lab& lab) { return Check(lab, o, Fp8Format::kE4M3, Fp8Blocks::kRow, Fp8Blocks::kSquare); });
  }
}

// What a GELU makes of the product is what it makes of the stored sum, as in products of wider types.
TEST(Fp8Product, EpiloguesAreThoseOfWiderProducts) {
  Lab lab(1, 0);
  const Tensor x = lab.Normal({40, 96}, DType::kBF16), w = lab.Normal({64, 96}, DType::kBF16),
               y = lab.Blank({40, 64}, DType::kBF16), activated = lab.Blank({40, 64}, DType::kBF16),
               apart = lab.Blank({40, 64}, DType::kBF16);
  const Quantised a = Quantise(lab, x, Fp8Format::kE4M3, Fp8Blocks::kTensor),
                  b = Quantise(lab, w, Fp8Format::kE4M3, Fp8Blocks::kTensor);
  ops::MatMul product{.a = a.codes,
                      .b = b.codes,
                      .out = activated,
                      .transpose_b = true,
                      .epilogue = ops::MatMul::kGelu,
                      .aux = y,
                      .a_scaling = a.scaling,
                      .b_scaling = b.scaling};
  lab.Run(product);
  lab.Run(ops::ActivationForward{ops::ActivationForward::kGelu, y, apart});
  EXPECT_TRUE(BitsOf(activated) == BitsOf(apart));
  product.epilogue = ops::MatMul::kNone, product.aux = Tensor();
  lab.Run(product);
  lab.Run(ops::ActivationBackward{ops::ActivationForward::kGelu, y, activated, apart});
  product.epilogue = ops::MatMul::kGeluSlope, product.aux = y;
  lab.Run(product);
  EXPECT_TRUE(BitsOf(activated) == BitsOf(apart));
}

// Where a matrix is cut changes its parts' scales, but they are powers of two: the same elements come out, but for
// those that are tiny beside the largest.
TEST(Fp8Product, PartsOfAMatrixRoundAsTheWhole) {
  Lab lab(1, 0);
  const Tensor whole = lab.Normal({32, 64}, DType::kF32), part = lab.Of({16, 64}, DType::kF32, Values(1024));
  std::memcpy(part.raw(), whole.raw(), 4 * 1024);
  const Values of_whole = Read(Quantise(lab, whole, Fp8Format::kE4M3, Fp8Blocks::kTensor)),
               of_part = Read(Quantise(lab, part, Fp8Format::kE4M3, Fp8Blocks::kTensor));
  for (size_t i = 0; i < of_part.size(); ++i) {
    if (std::abs(of_whole[i]) <= 0x1p-12) continue;
    EXPECT_EQ(of_part[i], of_whole[i]) << i;
  }
}

}  // namespace fp8_test
}  // namespace twofold
