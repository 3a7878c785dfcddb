// Gradient codecs. Places, signs, codes and values are the CPU's; scales and residuals to the tolerances of
// own_rounding.h.
#include "core/base/philox.h"
#include "tests/gpu/own_rounding.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace codec_test {

using Codec = GpuTest;

constexpr PhiloxKey kKey = MakeKey(11, "codec");
constexpr int64_t kSizes[] = {1, 7, 255, 257, 1025, 4096, 9001};

TEST_F(Codec, TopK) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (int64_t k : {int64_t{0}, int64_t{1}, n / 100, n / 3, n}) {
        SCOPED_TRACE(std::to_string(k) + " of " + std::to_string(n));
        ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {
          const Tensor in = o.Normal({n}), values = o.Out({k}), indices = o.OutOf({k}, DType::kI32);
          return ops::TopK{.in = in, .values = values, .indices = indices, .residual = o.Out({n})};
        });
      }
      ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {  // the residual in place
        const Tensor in = o.InOut(o.Normal({n})), values = o.Out({n / 2}), indices = o.OutOf({n / 2}, DType::kI32);
        return ops::TopK{.in = in, .values = values, .indices = indices, .residual = in};
      });
    }
  }
}

TEST_F(Codec, TopKOfEqualSizesAndNoNumbers) {
  for (DType t : kFloats) {
    for (int64_t k : {1, 2, 100, 4100, 8999}) {
      ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {  // 0, +-1, +-2 and a few that are none
        const auto value = [](int64_t i) {
          return i == 77 ? std::nan("") : i == 5000 ? -INFINITY : static_cast<double>(i * 7 % 5 - 2);
        };
        const Tensor in = o.Values({9000}, value, t), values = o.Out({k}), indices = o.OutOf({k}, DType::kI32);
        return ops::TopK{.in = in, .values = values, .indices = indices, .residual = Tensor()};
      });
    }
  }
}

TEST_F(Codec, RandomPlaces) {
  for (const auto& [k, n] :
       {std::pair<int64_t, int64_t>{0, 0}, {0, 5}, {1, 1}, {7, 7}, {100, 1000}, {1000, 1025}, {65, int64_t{1} << 30}}) {
    ExpectLikeCpu(DType::kF32, 0, [=](Operands& o) -> ops::Op {
      return ops::RandomPlaces{.out = o.OutOf({k}, DType::kI32), .n = n, .key = kKey};
    });
  }
}

Tensor Places(Operands& o, int64_t k, int64_t n) {
  return o.Values(
      {k}, [n](int64_t i) { return static_cast<double>(ops::rules::PlaceOf(i, n, kKey)); }, DType::kI32);
}

TEST_F(Codec, GatherAndScatter) {
  for (DType t : kFloats) {
    for (int64_t k : {0, 1, 333}) {
      ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {
        return ops::GatherElements{.in = o.Normal({1000}), .indices = Places(o, k, 1000), .values = o.Out({k})};
      });
      for (DType out : kFloats) {
        const auto old = [](int64_t i) { return static_cast<double>(i % 17) / 4 - 2; };
        for (bool accumulate : {false, true}) {
          ExpectLikeCpu(t, std::max(OwnRounding(out), 1e-13), [=](Operands& o) -> ops::Op {
            const Tensor values = o.Normal({k}), to = o.InOut(o.Values({1000}, old, out));
            return ops::ScatterElements{
                .values = values, .indices = Places(o, k, 1000), .out = to, .accumulate = accumulate};
          });
        }
        ExpectLikeCpu(t, 0, [=](Operands& o) -> ops::Op {
          const Tensor to = o.InOut(o.Values({1000}, old, out));
          return ops::ScatterElements{.values = Tensor(), .indices = Places(o, k, 1000), .out = to};
        });
      }
    }
  }
}

// Numbers whose levels lie a quarter off, so that no rounding of the arithmetic decides: in blocks of 256 the largest
// is 127 / 8. A block of zeros; one that begins with infinity.
double Quarter(int64_t i) {
  const int64_t block = i / 256, at = i % 256;
  if (block == 1) return 0;
  if (block == 3 && at == 0) return INFINITY;
  return at == 0 ? (block % 2 == 0 ? 127 : -127) / 8.0 : (static_cast<double>(at * 7919 % 63 - 31) + 0.25) / 8;
}

TEST_F(Codec, Quantise) {
  for (DType t : kFloats) {
    for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{300}, int64_t{255}, int64_t{2305}}) {
      for (bool stochastic : {false, true}) {
        for (int64_t first : {0, 3}) {
          SCOPED_TRACE(n);
          // A residual is what little is left of larger numbers.
          const double tolerance = t == DType::kF64 ? 1e-12 : std::max(OwnRounding(t), 1e-5);
          ExpectLikeCpu(t, tolerance, [=](Operands& o) -> ops::Op {
            const int64_t blocks = (n + 255) / 256;
            const Tensor in = o.Values({n}, Quarter, t), codes = o.OutOf({n}, DType::kU8), scales = o.WideOut({blocks});
            return ops::Quantise{.in = in,
                                 .codes = codes,
                                 .scales = scales,
                                 .residual = o.Out({n}),
                                 .stochastic = stochastic,
                                 .key = kKey,
                                 .where = {.first = first}};
          });
        }
      }
    }
  }
}

TEST_F(Codec, QuantiseInPlace) {
  ExpectLikeCpu(DType::kF32, 1e-5, [](Operands& o) -> ops::Op {
    const Tensor in = o.InOut(o.Values({700}, Quarter, DType::kF32)), codes = o.OutOf({700}, DType::kU8);
    return ops::Quantise{.in = in, .codes = codes, .scales = o.WideOut({3}), .residual = in};
  });
}

TEST_F(Codec, QuantiseToFewerBitsAndInLargerBlocks) {
  for (DType t : kFloats) {
    for (int64_t n : {1, 300, 2305}) {
      for (const auto& [bits, block] : {std::pair(4, 256), {4, 1024}, {8, 512}}) {
        const double tolerance = t == DType::kF64 ? 1e-12 : std::max(OwnRounding(t), 1e-5);
        ExpectLikeCpu(t, tolerance, [=, bits = bits, block = block](Operands& o) -> ops::Op {
          // The largest of a block is a multiple of its levels, all others lie between two of them.
          const auto value = [=](int64_t i) {
            const double level = i % block == 0 ? (bits == 4 ? 7 : 127) : static_cast<double>(i * 7919 % 13 - 6) + 0.25;
            return level / 8;
          };
          return ops::Quantise{.in = o.Values({n}, value, t),
                               .codes = o.OutOf({(n * bits + 7) / 8}, DType::kU8),
                               .scales = o.WideOut({(n + block - 1) / block}),
                               .residual = o.Out({n}),
                               .bits = bits,
                               .block = block};
        });
        ExpectLikeCpu(t, OwnRounding(t), [=, bits = bits, block = block](Operands& o) -> ops::Op {
          return ops::Dequantise{.codes = o.Ids({(n * bits + 7) / 8}, 256, DType::kU8),
                                 .scales = o.WideUniform({(n + block - 1) / block}, 0.5, 2),
                                 .out = o.InOut(o.Normal({n})),
                                 .accumulate = true,
                                 .bits = bits,
                                 .block = block};
        });
      }
    }
  }
}

TEST_F(Codec, Orthogonalise) {
  for (DType t : {DType::kF32, DType::kF64}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{37, 5}, Shape{3000, 4}, Shape{8, 8}}) {
      ExpectLikeCpu(t, t == DType::kF64 ? 1e-10 : 1e-4,
                    [&](Operands& o) -> ops::Op { return ops::Orthogonalise{o.InOut(o.Normal(shape))}; });
    }
  }
}

TEST_F(Codec, Dequantise) {
  for (DType t : kFloats) {
    for (DType scale : {DType::kF32, DType::kF64}) {
      for (int64_t n : {1, 255, 700, 2048}) {
        for (bool accumulate : {false, true}) {
          ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
            const Tensor codes = o.Ids({n}, 256, DType::kU8);
            const Tensor scales = o.Values(
                {(n + 255) / 256}, [](int64_t i) { return 0.1 + static_cast<double>(i); }, scale);
            return ops::Dequantise{.codes = codes,
                                   .scales = scales,
                                   .out = accumulate ? o.InOut(o.Normal({n})) : o.Out({n}),
                                   .accumulate = accumulate};
          });
        }
      }
    }
  }
}

TEST_F(Codec, SignPack) {
  for (DType t : kFloats) {
    for (int64_t n : {0, 1, 7, 255, 1025, 4099}) {
      // The residual and the scale of F32 are differences and sums of many.
      const double tolerance = std::max(OwnRounding(t), t == DType::kF64 ? 1e-13 : 1e-6);
      ExpectLikeCpu(t, tolerance, [=](Operands& o) -> ops::Op {
        const Tensor in = o.Normal({n}), signs = o.OutOf({(n + 7) / 8}, DType::kU8),
                     scales = o.WideOut({(n + 1023) / 1024});
        return ops::SignPack{.in = in, .signs = signs, .scales = scales, .residual = o.Out({n})};
      });
      ExpectLikeCpu(t, tolerance, [=](Operands& o) -> ops::Op {  // in place
        const Tensor in = o.InOut(o.Normal({n})), signs = o.OutOf({(n + 7) / 8}, DType::kU8),
                     scales = o.WideOut({(n + 1023) / 1024});
        return ops::SignPack{.in = in, .signs = signs, .scales = scales, .residual = in};
      });
    }
  }
}

TEST_F(Codec, SignUnpack) {
  for (DType t : kFloats) {
    for (int64_t n : {1, 7, 255, 1025, 4099}) {
      for (bool accumulate : {false, true}) {
        ExpectLikeCpu(t, OwnRounding(t), [=](Operands& o) -> ops::Op {
          const Tensor signs = o.Ids({(n + 7) / 8}, 256, DType::kU8),
                       scales = o.WideUniform({(n + 1023) / 1024}, 0.5, 2);
          return ops::SignUnpack{.signs = signs,
                                 .scales = scales,
                                 .out = accumulate ? o.InOut(o.Normal({n})) : o.Out({n}),
                                 .accumulate = accumulate};
        });
      }
    }
  }
}

}  // namespace codec_test
}  // namespace twofold
