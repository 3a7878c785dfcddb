// Rounding to FP8 on a GPU against the CPU: codes and scales to the bit.
#include "tests/gpu/fp8_on_gpu.h"

namespace twofold {
namespace fp8_test {

// In its two halves, which differ in nothing.
Quantised QuantiseInHalves(Pair& pair, const Twin& in, Fp8Format format) {
  using ops::QuantiseFp8;
  const Twin largest = pair.Blank({1, 1}, DType::kI32);
  Quantised q{pair.Blank({in.cpu.dim(0), in.cpu.dim(1)}, DType::kU8), pair.Blank({1, 1}, DType::kF32), format,
              Fp8Blocks::kTensor};
  pair.Run([&](auto part) -> ops::Op {
    return QuantiseFp8{
        .in = part(in), .codes = {}, .scaling = {}, .part = QuantiseFp8::kLargest, .largest = part(largest)};
  });
  pair.Run([&](auto part) -> ops::Op {
    return QuantiseFp8{.in = part(in),
                       .codes = part(q.codes),
                       .scaling = q.Scaling(part),
                       .part = QuantiseFp8::kCodes,
                       .largest = part(largest)};
  });
  return q;
}

std::string NameOf(Fp8Format format, Fp8Blocks blocks, DType type, int64_t m, int64_t n, int64_t offset) {
  return StrCat(format == Fp8Format::kE4M3 ? "E4M3" : "E5M2", ", blocks ", static_cast<int>(blocks), ", ", Name(type),
                " [", m, ", ", n, "], offset ", offset);
}

void ExpectSameBits(const Quantised& q) {
  EXPECT_TRUE(Pair::Read(q.scales.gpu) == BitsOf(q.scales.cpu)) << "scales differ";
  EXPECT_TRUE(Pair::Read(q.codes.gpu) == BitsOf(q.codes.cpu)) << "codes differ";
}

TEST_F(Fp8OnGpu, IsRoundedToAsOnTheCpu) {
  constexpr int64_t kSizes[][2] = {{1, 1},     {1, 130},  {130, 1},   {3, 257},  {128, 128},
                                   {129, 384}, {257, 36}, {300, 200}, {5, 5000}, {0, 7}};
  for (const DType type : kNarrow) {
    for (const auto& [m, n] : kSizes) {
      for (const Fp8Format format : kFormats) {
        for (const Fp8Blocks blocks : kBlocks) {
          for (const int64_t offset : {0, 1}) {
            SCOPED_TRACE(NameOf(format, blocks, type, m, n, offset));
            Pair pair(offset);
            const Twin in = pair.Of({m, n}, type, Uneven(pair.lab, m, n));
            ExpectSameBits(Quantise(pair, in, format, blocks));
            if (blocks == Fp8Blocks::kTensor) ExpectSameBits(QuantiseInHalves(pair, in, format));
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

// More parts than a block has threads, and more codes than all blocks take at once.
TEST_F(Fp8OnGpu, LargeTensorsAreRoundedAsOnTheCpu) {
  constexpr int64_t kElements = (int64_t{1} << 20) + 5 * 4096 + 3;
  for (const int64_t offset : {0, 1}) {
    Pair pair(offset);
    Tensor in = pair.lab.Blank({1, kElements}, DType::kBF16);
    auto* const bits = static_cast<uint16_t*>(in.raw());
    for (int64_t i = 0; i < kElements; ++i)
      bits[i] = static_cast<uint16_t>(0x3f80 + i % 251 - (i % 3 == 0 ? 0x8000 : 0));
    bits[kElements - 1] = 0x4283;  // the largest, in the last part
    ExpectSameBits(Quantise(pair, pair.On(in), kFormats[offset], Fp8Blocks::kTensor));
    ExpectSameBits(QuantiseInHalves(pair, pair.On(in), kFormats[offset]));
  }
}

// All numbers of BF16, which are more than the codes and the boundaries between them. In blocks of rows and columns
// each lies beside its neighbours; beside a whole tensor's largest, those that are larger, or not finite, are left out.
TEST_F(Fp8OnGpu, RoundsEveryBf16AsOnTheCpu) {
  for (const Fp8Format format : kFormats) {
    for (const Fp8Blocks blocks : kBlocks) {
      SCOPED_TRACE(NameOf(format, blocks, DType::kBF16, 512, 128, 0));
      Pair pair(0);
      const Tensor all = pair.lab.Blank({512, 128}, DType::kBF16);
      auto* const bits = static_cast<uint16_t*>(all.raw());
      for (int i = 0; i < 65536; ++i) {
        const int number = blocks == Fp8Blocks::kColumn ? i % 128 * 512 + i / 128 : i;
        constexpr int kMost = 0x4780;  // 65536
        const bool larger = blocks != Fp8Blocks::kColumn && blocks != Fp8Blocks::kRow && (number & 0x7fff) > kMost;
        bits[i] = static_cast<uint16_t>(larger ? 0 : number);
      }
      ExpectSameBits(Quantise(pair, pair.On(all), format, blocks));
    }
  }
}

TEST_F(Fp8OnGpu, BlocksWithANumberThatIsNotFiniteAreThoseOfTheCpu) {
  constexpr int64_t m = 200, n = 260;
  constexpr double kBad[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::quiet_NaN()};
  for (const DType type : kNarrow) {
    for (const double bad : kBad) {
      for (const Fp8Format format : kFormats) {
        for (const Fp8Blocks blocks : kBlocks) {
          SCOPED_TRACE(NameOf(format, blocks, type, m, n, 0));
          Pair pair(0);
          Values values = Uneven(pair.lab, m, n);
          values[At(130 * n + 7)] = bad;
          ExpectSameBits(Quantise(pair, pair.Of({m, n}, type, values), format, blocks));
        }
      }
    }
  }
}

}  // namespace fp8_test
}  // namespace twofold
