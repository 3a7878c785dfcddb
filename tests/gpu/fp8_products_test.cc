// Products of FP8 operands on a GPU against the CPU, to the bit where every sum is exact.
#include <cstdlib>

#include "tests/gpu/fp8_on_gpu.h"

namespace twofold {
namespace fp8_test {

void ExpectExact(const Options& o, int64_t offset) {
  SCOPED_TRACE(StrCat(o.Text(), ", offset ", offset));
  Pair pair(offset);
  const Outputs got = Multiply(pair, o, Whole, 1);
  EXPECT_TRUE(Pair::Read(got.out.gpu) == BitsOf(got.out.cpu)) << "the product differs";
}

constexpr int64_t kSizes[][3] = {{1, 1, 1}, {5, 7, 3}, {33, 66, 130}, {130, 70, 255}, {64, 129, 300}, {160, 144, 272}};

// A third of the variants, six in a row; with TWOFOLD_TEST_FULL=1 all.
TEST_F(Fp8OnGpu, ProductsWithExactSumsAreThoseOfTheCpu) {
  const bool all = std::getenv("TWOFOLD_TEST_FULL") != nullptr;
  int variant = 0;
  for (const auto& [m, n, k] : kSizes) {
    for (int way = 0; way < 4; ++way) {
      for (const Fp8Blocks a : kBlocks) {
        for (const Fp8Blocks b : kBlocks) {
          if (++variant / 6 % 3 != 0 && !all) continue;
          ExpectExact({.m = m,
                       .n = n,
                       .k = k,
                       .transpose_a = (way & 1) != 0,
                       .transpose_b = (way & 2) != 0,
                       .accumulate = variant % 3 == 0,
                       .bias = variant % 2 == 0,
                       .blocks_a = a,
                       .blocks_b = b,
                       .format_a = kFormats[variant / 2 % 2],
                       .format_b = kFormats[variant / 5 % 2],
                       .out = kNarrow[variant % 3],
                       .bias_type = kNarrow[variant / 3 % 3]},
                      variant % 4 == 0 ? 1 : 0);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(Fp8OnGpu, ProductsOfNothing) {
  for (const auto& [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{3, 5, 0}, {0, 5, 3}, {3, 0, 4}}) {
    for (const bool more : {false, true}) ExpectExact({.m = m, .n = n, .k = k, .accumulate = more, .bias = more}, 0);
  }
}

TEST_F(Fp8OnGpu, ProductsOfAnyNumbersAreCloseToTheCpus) {
  int variant = 0;
  for (const auto& [m, n, k] : kSizes) {
    for (int way = 0; way < 3; ++way) {  // the products of a layer, with both kinds of scales
      for (const bool blocks : {false, true}) {
        ++variant;
        const Options o{.m = m,
                        .n = n,
                        .k = k,
                        .transpose_a = way == 2,
                        .transpose_b = way == 0,
                        .bias = way == 0,
                        .blocks_a = !blocks    ? Fp8Blocks::kTensor
                                    : way == 2 ? Fp8Blocks::kColumn
                                               : Fp8Blocks::kRow,
                        .blocks_b = !blocks    ? Fp8Blocks::kTensor
                                    : way == 2 ? Fp8Blocks::kColumn
                                               : Fp8Blocks::kSquare,
                        .format_a = !blocks && way > 0 ? Fp8Format::kE5M2 : Fp8Format::kE4M3,
                        .out = kNarrow[variant % 3]};
        SCOPED_TRACE(o.Text());
        Pair pair(0);
        const Outputs got = Multiply(pair, o, Uneven, 0.25);
        ExpectClose(got.out, got.terms, OfSums());
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Fp8OnGpu, EpiloguesAreThoseOfTheCpu) {
  const auto small = [](Lab& lab, int64_t rows, int64_t columns) {
    return ValuesOf(lab.Normal({rows, columns}, DType::kF64, 0.2));
  };
  for (const DType out : kNarrow) {
    for (const int64_t n : {64, 65}) {
      for (const auto epilogue : {ops::MatMul::kGelu, ops::MatMul::kGeluSlope}) {
        const Options o{
            .m = 37, .n = n, .k = 150, .bias = epilogue == ops::MatMul::kGelu, .out = out, .epilogue = epilogue};
        SCOPED_TRACE(o.Text());
        Pair pair(0);
        const Outputs got = Multiply(pair, o, small, 0.25);
        // A sum on the boundary may be rounded to either side, and GELU's slope is at most 1.13.
        const double both = 4 * HalfUnit(out);
        ExpectClose(got.out, 8, both + OfSums());
        if (epilogue == ops::MatMul::kGelu) ExpectClose(got.aux, 8, both + OfSums());
      }
    }
  }
}

// Scales whose products leave the range of F32 on the way: tiny, huge, and one of each.
TEST_F(Fp8OnGpu, ScalesAtTheEndsOfTheRange) {
  for (const auto& [of_a, of_b] :
       {std::pair(-60, -40), {-110, 100}, {100, -110}, {-70, -70}, {-95, -20}, {60, 50}, {80, 70}}) {
    for (const bool zeros : {false, true}) {
      // Terms beyond the range of F32 are summed as codes here, and as infinities on the CPU: one term alone is
      // compared.
      if (of_a + of_b > 120 && !zeros) continue;
      SCOPED_TRACE(StrCat("2^", of_a, " and 2^", of_b, zeros ? ", zeros" : ""));
      bool first = true;
      const auto values = [&](Lab& lab, int64_t rows, int64_t columns) {
        Values values = Whole(lab, rows, columns);
        for (double& x : values) x = zeros && first ? 0.0 : std::ldexp(x, first ? of_a : of_b);
        if (zeros && first) values[0] = std::ldexp(1.0, of_a);
        first = false;
        return values;
      };
      Pair pair(0);
      const Outputs got = Multiply(pair, {.m = 20, .n = 20, .k = 100, .blocks_a = Fp8Blocks::kRow}, values, 0);
      ExpectClose(got.out, got.terms, OfSums());
    }
  }
}

TEST_F(Fp8OnGpu, WhatIsNotFiniteIsSeenInTheResultsItBelongsTo) {
  bool first = true;
  const auto values = [&](Lab& lab, int64_t rows, int64_t columns) {
    Values values = Whole(lab, rows, columns);
    if (first) values[At(2 * columns + 5)] = std::numeric_limits<double>::infinity();
    first = false;
    return values;
  };
  Pair pair(0);
  const Outputs got = Multiply(
      pair, {.m = 5, .n = 6, .k = 200, .blocks_a = Fp8Blocks::kRow, .blocks_b = Fp8Blocks::kSquare}, values, 0);
  const std::string bits = Pair::Read(got.out.gpu);
  Values of_gpu(30);
  cpu::Convert(bits.data(), DType::kF32, of_gpu.data(), DType::kF64, 30);
  const Values want = ValuesOf(got.out.cpu);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(std::isfinite(of_gpu[i]), i / 6 != 2) << i;
    if (std::isfinite(want[i])) {
      EXPECT_EQ(of_gpu[i], want[i]) << i;
    }
  }
}

}  // namespace fp8_test
}  // namespace twofold
