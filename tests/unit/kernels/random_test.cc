#include <cmath>

#include "core/base/philox.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace random_test {

constexpr PhiloxKey kKey = MakeKey(7, "test");

Tensor Filled(Lab& lab, ops::RandomFill::Distribution d, int64_t n, DType t, int64_t first, double a, double b) {
  const Tensor out = lab.Blank({n}, t);
  lab.Run(ops::RandomFill{d, out, a, b, kKey, {.first = first}});
  return out;
}

TEST(RandomFill, IsTheKeysSequence) {
  for (int64_t n : {1, 3, 17, 129, 1025, 40001}) {
    for (int64_t first : {int64_t{0}, int64_t{1}, int64_t{6}, (int64_t{1} << 34) + 3}) {
      Verify("random_fill " + std::to_string(n) + " from " + std::to_string(first), [&](Lab& lab) {
        const Tensor normal = Filled(lab, ops::RandomFill::kNormal, n, DType::kF32, first, 0, 1);
        const Tensor uniform = Filled(lab, ops::RandomFill::kUniform, n, DType::kF32, first, 0, 1);
        Values normals, uniforms;
        for (int64_t i = 0; i < n; ++i) {
          normals.push_back(NormalAt(kKey, static_cast<uint64_t>(first + i)));
          uniforms.push_back(UniformAt(kKey, static_cast<uint64_t>(first + i)));
        }
        EXPECT_EQ(ValuesOf(normal), normals);  // to the bit
        EXPECT_EQ(ValuesOf(uniform), uniforms);
        return std::vector<Expected>{{normal, normals, 0}, {uniform, uniforms, 0}};
      });
    }
  }
}

TEST(RandomFill, ShiftsAndScalesInEveryType) {
  for (DType t : kFloats) {
    Verify("random_fill " + Name(t), [&](Lab& lab) {
      const Tensor normal = Filled(lab, ops::RandomFill::kNormal, 333, t, 0, 0.5, 0.02);
      const Tensor uniform = Filled(lab, ops::RandomFill::kUniform, 333, t, 0, -2, 3);
      Values normals, uniforms;
      for (uint64_t i = 0; i < 333; ++i) {
        normals.push_back(0.5 + 0.02 * NormalAt(kKey, i));
        uniforms.push_back(-2 + 5.0 * UniformAt(kKey, i));
      }
      return std::vector<Expected>{{normal, normals, 0.01, t}, {uniform, uniforms, 0.01, t}};
    });
  }
}

TEST(RandomFill, AShardDrawsItsOwnPart) {
  Lab lab(1, 0);
  const Values whole = ValuesOf(Filled(lab, ops::RandomFill::kNormal, 1000, DType::kF32, 0, 0, 1));
  const Values part = ValuesOf(Filled(lab, ops::RandomFill::kNormal, 333, DType::kF32, 501, 0, 1));
  EXPECT_EQ(part, Values(whole.begin() + 501, whole.begin() + 834));
}

TEST(RandomFill, NormalsHaveTheirMoments) {
  Lab lab(1, 0);
  const int64_t n = 200000;
  double sum = 0, squares = 0;
  for (double v : ValuesOf(Filled(lab, ops::RandomFill::kNormal, n, DType::kF32, 0, 0, 1))) sum += v, squares += v * v;
  EXPECT_NEAR(sum / static_cast<double>(n), 0, 0.012);  // five deviations of the mean; the key is fixed
  EXPECT_NEAR(squares / static_cast<double>(n), 1, 0.016);
}

TEST(Dropout, KeepsByTheKeysUniformNumbers) {
  for (DType t : kFloats) {
    for (double p : {0.0, 0.1, 0.5, 1.0}) {
      for (int64_t n : {1, 17, 129, 1025, 40001}) {
        Verify("dropout " + Name(t) + " " + std::to_string(n), [&](Lab& lab) {
          const Tensor x = lab.Normal({n}, t), y = lab.Blank({n}, t);
          const Values v = ValuesOf(x);
          Values want;
          for (int64_t i = 0; i < n; ++i) {
            const bool keep = UniformAt(kKey, static_cast<uint64_t>(i)) >= static_cast<float>(p);
            want.push_back(keep ? v[At(i)] / (1 - p) : 0);
          }
          lab.Run(ops::Dropout{x, y, p, kKey});
          lab.Run(ops::Dropout{x, x, p, kKey});  // in place
          return std::vector<Expected>{{y, want, 1, t}, {x, want, 1, t}};
        });
      }
    }
  }
}

TEST(Dropout, KeepsAnElementWhoseNumberIsP) {
  Lab lab(1, 0);
  const Tensor x = lab.Of({6}, DType::kF32, Values(6, 1)), y = lab.Blank({6}, DType::kF32);
  lab.Run(ops::Dropout{x, y, UniformAt(kKey, 5), kKey});
  EXPECT_GT(ValuesOf(y)[5], 1);
}

}  // namespace random_test
}  // namespace twofold
