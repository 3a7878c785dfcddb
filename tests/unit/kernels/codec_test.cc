// Gradient codecs: the largest elements, random places, 8 bits, 1 bit.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "core/base/philox.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace codec_test {

constexpr PhiloxKey kKey = MakeKey(11, "codec");
constexpr int64_t kSizes[] = {1, 7, 255, 256, 257, 1023, 1025, 5000, 40001};

std::string Text(const char* name, DType t, int64_t n) {
  return std::string(name) + " " + Name(t) + " " + std::to_string(n);
}

// The places of the k largest, by sorting: in order of the places.
std::vector<size_t> Largest(const Values& v, int64_t k) {
  std::vector<size_t> order(v.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto size = [&v](size_t i) {
    return std::isnan(v[i]) ? std::numeric_limits<double>::infinity() : std::abs(v[i]);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(v[a]) != std::isnan(v[b])) return std::isnan(v[a]);
    return size(a) > size(b);
  });
  order.resize(At(k));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<Expected> RunTopK(Lab& lab, const Tensor& in, int64_t k) {
  const DType t = in.dtype();
  const Tensor values = lab.Blank({k}, t), indices = lab.Blank({k}, DType::kI32), residual = lab.Blank(in.shape(), t);
  Values want_values, want_indices, left = ValuesOf(in);
  for (size_t i : Largest(left, k)) {
    want_values.push_back(left[i]);
    want_indices.push_back(static_cast<double>(i));
    left[i] = 0;
  }
  lab.Run(ops::TopK{in, values, indices, residual});
  EXPECT_EQ(ValuesOf(indices), want_indices);
  lab.Run(ops::TopK{in, values, indices, in});
  EXPECT_EQ(BitsOf(in), BitsOf(residual));
  EXPECT_EQ(ValuesOf(indices), want_indices);
  return {{values, want_values, 0}, {residual, left, 0}};
}

TEST(Codec, TopKTakesTheLargestInOrderOfTheirPlaces) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (int64_t k : {int64_t{0}, int64_t{1}, n / 100, n / 3, n - 1, n})
        Verify(Text("top_k", t, n) + " of " + std::to_string(k),
               [&](Lab& lab) { return RunTopK(lab, lab.Normal({n}, t), k); });
    }
  }
}

TEST(Codec, TopKTakesEqualSizesFromTheFront) {
  for (DType t : kFloats) {
    for (int64_t k : {1, 10, 100, 150, 299}) {
      Verify("ties", [&](Lab& lab) {
        Values v(300);
        for (size_t i = 0; i < v.size(); ++i)
          v[i] = static_cast<double>(static_cast<int>(i * 7 % 5) - 2);  // -2 ... 2, zeros among them
        return RunTopK(lab, lab.Of({300}, t, v), k);
      });
    }
  }
}

// Where the CPU's kernel expects the k-th largest is guessed from a sample, which may be unlike the rest.
TEST(Codec, TopKIsExactWhateverASampleSays) {
  constexpr int64_t kNumel = 70000, kSample = 4096;
  const auto sampled = [](int64_t i) {
    const int64_t nth = i / (kNumel / kSample);
    return nth < kSample && i % (kNumel / kSample) == nth % 64 % (kNumel / kSample);
  };
  const std::function<double(int64_t)> values[] = {
      [](int64_t) { return 0.0; },
      [](int64_t i) { return i % 2 == 0 ? -3.0 : 3.0; },
      [](int64_t i) { return i % 10000 == 7 ? 1.0 : 0.0; },
      [&](int64_t i) { return sampled(i) ? 100.0 + static_cast<double>(i % 7) : 1.0 + static_cast<double>(i % 13); },
      [&](int64_t i) { return sampled(i) ? 1.0 : 50.0 + static_cast<double>(i % 13); },
      [](int64_t i) { return i % 500 == 3 ? std::nan("") : static_cast<double>(i * 7919 % 1000); },
  };
  for (DType t : kFloats) {
    for (const auto& value : values) {
      Lab lab(1, 0);
      Values v;
      for (int64_t i = 0; i < kNumel; ++i) v.push_back(value(i));
      for (int64_t k : {1, 70, 700, 5000}) {
        const Tensor in = lab.Of({kNumel}, t, v), got = lab.Blank({k}, t), indices = lab.Blank({k}, DType::kI32);
        Values want;
        for (size_t i : Largest(ValuesOf(in), k)) want.push_back(static_cast<double>(i));
        lab.Run(ops::TopK{in, got, indices, Tensor()});
        EXPECT_EQ(ValuesOf(indices), want) << DTypeName(t) << ", k = " << k;
      }
    }
  }
}

TEST(Codec, TopKSeesWhatIsNoNumberFirst) {
  Lab lab(1, 0);
  const Tensor in = lab.Of({5}, DType::kF32, {1, -std::numeric_limits<double>::infinity(), std::nan(""), 1e30, 2});
  const Tensor values = lab.Blank({2}, DType::kF32), indices = lab.Blank({2}, DType::kI32);
  lab.Run(ops::TopK{in, values, indices, Tensor()});
  EXPECT_EQ(ValuesOf(indices), (Values{1, 2}));
}

TEST(Codec, RandomPlacesDifferAndAreEachPlaceAtLast) {
  for (int64_t n : {1, 2, 3, 10, 64, 65, 1000, 4097}) {
    Lab lab(3, 0);
    const Tensor out = lab.Blank({n}, DType::kI32);
    lab.Run(ops::RandomPlaces{out, n, kKey});
    const Values places = ValuesOf(out);
    const std::set<double> all(places.begin(), places.end());
    EXPECT_EQ(all.size(), At(n));
    EXPECT_EQ(*all.begin(), 0);
    EXPECT_EQ(*all.rbegin(), static_cast<double>(n - 1));
  }
  EXPECT_LT(ops::rules::PlaceOf(5, std::numeric_limits<int32_t>::max(), kKey), std::numeric_limits<int32_t>::max());
}

TEST(Codec,
     RandomPlacesAreSpreadEvenly) {  // the first tenth of the permutation, over 20 keys: each of 50 places is as likely
  std::vector<int> taken(50);
  for (uint64_t key = 0; key < 4000; ++key) {
    for (int64_t i = 0; i < 5; ++i) ++taken[At(ops::rules::PlaceOf(i, 50, MakeKey(key, "spread")))];
  }
  for (int count : taken) EXPECT_NEAR(count, 400, 100);  // five deviations
}

TEST(Codec, GatherAndScatter) {
  for (DType t : kFloats) {
    for (DType out_type : kFloats) {
      for (bool accumulate : {false, true}) {
        Verify(Text("gather, scatter", t, 1000), [&](Lab& lab) {
          const int64_t n = 1000, k = 333;
          const Tensor in = lab.Normal({n}, t), places = lab.Blank({k}, DType::kI32), values = lab.Blank({k}, t);
          lab.Run(ops::RandomPlaces{places, n, kKey});
          lab.Run(ops::GatherElements{in, places, values});
          const Tensor out = lab.Normal({n}, out_type), cleared = lab.Normal({n}, out_type);
          Values want_values, want = ValuesOf(out), want_cleared = ValuesOf(cleared);
          const Values from = ValuesOf(in);
          for (double p : ValuesOf(places)) {
            const auto at = static_cast<size_t>(p);
            want_values.push_back(from[at]);
            want[at] = (accumulate ? want[at] : 0) + from[at];
            want_cleared[at] = 0;
          }
          lab.Run(ops::ScatterElements{values, places, out, accumulate});
          lab.Run(ops::ScatterElements{Tensor(), places, cleared});
          return std::vector<Expected>{{values, want_values, 0}, {out, want, 1, out_type}, {cleared, want_cleared, 0}};
        });
      }
    }
  }
}

struct Coded {
  Tensor codes, scales, decoded, residual;
};
Coded Code(Lab& lab, const Tensor& in, bool stochastic, DType out, int bits = 8, int64_t block = 256) {
  const int64_t n = in.numel(), blocks = (n + block - 1) / block;
  const Coded c{lab.Blank({(n * bits + 7) / 8}, DType::kU8), lab.Blank({blocks}, Wide(in.dtype())), lab.Blank({n}, out),
                lab.Blank({n}, in.dtype())};
  lab.Run(ops::Quantise{in, c.codes, c.scales, c.residual, stochastic, kKey, {.first = 3}, bits, block});
  lab.Run(ops::Dequantise{c.codes, c.scales, c.decoded, false, bits, block});
  return c;
}
// Code i of those of 4 or 8 bits.
double CodeAt(const Values& codes, size_t i, int bits) {
  if (bits == 8) return codes[i];
  return static_cast<int>(codes[i / 2]) >> (i % 2 * 4) & 15;
}

void ExpectHalfALevel(int bits, int64_t block_size) {
  const auto block = static_cast<size_t>(block_size);
  const int levels = bits == 8 ? 127 : 7;
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (bool stochastic : {false, true}) {
        Verify(Text("quantise", t, n), [&](Lab& lab) {
          const Tensor in = lab.Normal({n}, t);
          const Coded c = Code(lab, in, stochastic, Wide(t), bits, block_size);
          const Values x = ValuesOf(in), scales = ValuesOf(c.scales), decoded = ValuesOf(c.decoded),
                       codes = ValuesOf(c.codes);
          Values want_scales(scales.size()), left(x.size());
          for (size_t i = 0; i < x.size(); ++i) {
            double& scale = want_scales[i / block];
            scale = std::max(scale, std::abs(x[i]) / levels);
            EXPECT_LE(std::abs(decoded[i] - x[i]), (stochastic ? 1.0001 : 0.5001) * scales[i / block]);
            const double level = x[i] / scales[i / block];
            if (stochastic && std::abs(level) < levels - 1) {  // at the ends there is no level beyond
              const double draw = HalfToUniform(HalfAt(kKey, i + 3));
              if (std::abs(level + draw - std::round(level + draw)) > 1e-4) {  // else rounding in f32 decides
                EXPECT_EQ(CodeAt(codes, i, bits) - levels - 1, std::floor(level + draw));
              }
            }
            left[i] = x[i] - decoded[i];
          }
          return std::vector<Expected>{{c.scales, want_scales, 0.01, t}, {c.residual, left, 1, t}};
        });
      }
    }
  }
}

TEST(Codec, QuantiseKeepsEachElementToHalfALevelOfItsBlock) {
  ExpectHalfALevel(8, 256);
  ExpectHalfALevel(8, 1024);
  ExpectHalfALevel(4, 256);
  ExpectHalfALevel(4, 512);
}

TEST(Codec, HalfABytePastTheLastCodeIsZero) {
  Lab lab(1, 0);
  const Coded c = Code(lab, lab.Of({3}, DType::kF32, {7, -7, 3}), false, DType::kF32, 4);
  EXPECT_EQ(ValuesOf(c.codes), (Values{15 + 16 * 1, 11}));
  EXPECT_EQ(ValuesOf(c.decoded), (Values{7, -7, 3}));
}

TEST(Codec, StochasticRoundingIsUnbiased) {
  Lab lab(2, 0);
  const int64_t n = 100000;
  Values v(At(n), 0.303);
  for (size_t i = 0; i < v.size(); i += 256) v[i] = 127;  // so that levels are 1 apart
  const Coded c = Code(lab, lab.Of({n}, DType::kF32, v), true, DType::kF32);
  double sum = 0, elements = 0;
  const Values decoded = ValuesOf(c.decoded);
  for (size_t i = 0; i < v.size(); ++i) {
    if (i % 256 != 0) sum += decoded[i], ++elements;
  }
  EXPECT_NEAR(sum / elements, 0.303, 0.008);  // five deviations; the key is fixed
}

TEST(Codec, QuantiseShowsWhatIsNoNumberAndKeepsZero) {
  Lab lab(1, 0);
  Values v(600);
  v[3] = std::nan(""), v[4] = 7;
  const Coded c = Code(lab, lab.Of({600}, DType::kF32, v), false, DType::kF32);
  const Values decoded = ValuesOf(c.decoded);
  for (size_t i = 0; i < 600; ++i) {
    EXPECT_TRUE(i < 256 ? std::isnan(decoded[i]) : decoded[i] == 0) << i;
  }
}

TEST(Codec, DequantiseAddsToAnyType) {
  for (DType t : kFloats) {
    Verify(Text("dequantise", t, 700), [&](Lab& lab) {
      const Tensor codes = lab.Ids(700, DType::kU8, 256), scales = lab.Positive({3}, DType::kF32),
                   out = lab.Normal({700}, t);
      Values want = ValuesOf(out);
      for (size_t i = 0; i < 700; ++i) want[i] += (ValuesOf(codes)[i] - 128) * ValuesOf(scales)[i / 256];
      lab.Run(ops::Dequantise{codes, scales, out, true});
      return std::vector<Expected>{{out, want, 100, t}};
    });
  }
}

TEST(Codec, SignsAndMeanSizesOfBlocks) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      Verify(Text("sign_pack", t, n), [&](Lab& lab) {
        const int64_t blocks = (n + ops::kSignBlock - 1) / ops::kSignBlock;
        const Tensor in = lab.Normal({n}, t), signs = lab.Blank({(n + 7) / 8}, DType::kU8),
                     scales = lab.Blank({blocks}, Wide(t)), residual = lab.Blank({n}, t), decoded = lab.Blank({n}, t),
                     added = lab.Normal({n}, t);
        const Values x = ValuesOf(in), before = ValuesOf(added);
        Values want_signs(At((n + 7) / 8)), means(At(blocks)), left(At(n)), want_decoded(At(n)), want_added(At(n));
        for (size_t i = 0; i < x.size(); ++i) {
          if (x[i] < 0) want_signs[i / 8] += 1 << (i % 8);
          means[i / 1024] +=
              std::abs(x[i]) / static_cast<double>(std::min<int64_t>(1024, n - static_cast<int64_t>(i / 1024) * 1024));
        }
        for (size_t i = 0; i < x.size(); ++i) {
          want_decoded[i] = x[i] < 0 ? -means[i / 1024] : means[i / 1024];
          left[i] = x[i] - want_decoded[i];
          want_added[i] = before[i] + want_decoded[i];
        }
        lab.Run(ops::SignPack{in, signs, scales, residual});
        EXPECT_EQ(ValuesOf(signs), want_signs);
        lab.Run(ops::SignUnpack{signs, scales, decoded});
        lab.Run(ops::SignUnpack{signs, scales, added, true});
        lab.Run(ops::SignPack{in, signs, scales, in});
        EXPECT_EQ(BitsOf(in), BitsOf(residual));
        return std::vector<Expected>{
            {scales, means, 1, t}, {residual, left, 1, t}, {decoded, want_decoded, 1, t}, {added, want_added, 1, t}};
      });
    }
  }
}

// The product of a column with itself is 1, with any other 0.
void ExpectOrthonormal(const Tensor& x, double tolerance) {
  const Values v = ValuesOf(x);
  const auto rows = static_cast<size_t>(x.dim(0)), columns = static_cast<size_t>(x.dim(1));
  for (size_t j = 0; j < columns; ++j) {
    for (size_t k = 0; k <= j; ++k) {
      double product = 0;
      for (size_t i = 0; i < rows; ++i) product += v[i * columns + j] * v[i * columns + k];
      EXPECT_NEAR(product, j == k ? 1 : 0, tolerance) << "columns " << j << " and " << k;
    }
  }
}

TEST(Codec, OrthogonaliseKeepsTheSpaceOfTheColumns) {
  for (DType t : {DType::kF32, DType::kF64}) {
    Lab lab(1, 0);
    const double tolerance = t == DType::kF64 ? 1e-12 : 1e-5;
    const int64_t n = 37, r = 5;
    const Tensor x = lab.Normal({n, r}, t);
    const Values before = ValuesOf(x);
    lab.Run(ops::Orthogonalise{x});
    ExpectOrthonormal(x, tolerance);
    const Values q = ValuesOf(x);
    for (size_t j = 0; j < At(r); ++j) {  // column j is what its projection on the first j + 1 columns of x gives
      Values left(At(n));
      for (size_t i = 0; i < At(n); ++i) left[i] = before[i * At(r) + j];
      for (size_t k = 0; k <= j; ++k) {
        double product = 0;
        for (size_t i = 0; i < At(n); ++i) product += q[i * At(r) + k] * before[i * At(r) + j];
        for (size_t i = 0; i < At(n); ++i) left[i] -= product * q[i * At(r) + k];
      }
      for (size_t i = 0; i < At(n); ++i) EXPECT_NEAR(left[i], 0, 20 * tolerance);
    }
  }
}

TEST(Codec, OrthogonaliseReplacesColumnsThatDependOnOthers) {
  Lab lab(1, 0);
  Values v(At(20 * 4));
  for (size_t i = 0; i < 20; ++i) {  // the third column is a sum of the first two, the last one 0
    v[i * 4] = std::sin(static_cast<double>(i)), v[i * 4 + 1] = static_cast<double>(i % 3);
    v[i * 4 + 2] = v[i * 4] + v[i * 4 + 1];
  }
  const Tensor x = lab.Of({20, 4}, DType::kF32, v), square = lab.Blank({3, 3}, DType::kF32);
  lab.Run(ops::Orthogonalise{x});
  ExpectOrthonormal(x, 1e-5);
  lab.Run(ops::Fill{square, 0});
  lab.Run(ops::Orthogonalise{square});
  ExpectOrthonormal(square, 1e-5);
  const Tensor bad = lab.Of({3, 1}, DType::kF32, {1, std::nan(""), 2});
  lab.Run(ops::Orthogonalise{bad});
  EXPECT_TRUE(std::isnan(ValuesOf(bad)[0]));
}

TEST(Codec, NothingIsEncodedAsNothing) {
  Lab lab(1, 0);
  const Tensor none = lab.Blank({0}, DType::kF32), bytes = lab.Blank({0}, DType::kU8),
               places = lab.Blank({0}, DType::kI32);
  lab.Run(ops::TopK{none, none, places, none});
  lab.Run(ops::Quantise{none, bytes, none, none});
  lab.Run(ops::Dequantise{bytes, none, none});
  lab.Run(ops::SignPack{none, bytes, none, none});
  lab.Run(ops::SignUnpack{bytes, none, none});
}

}  // namespace codec_test
}  // namespace twofold
