#include "core/base/philox.h"

#include <set>

#include "gtest/gtest.h"

namespace twofold {
namespace philox_test {

// Philox4x32-10 of the all-zero key and counter, and of its known-answer with key bits set, from Random123's
// kat_vectors.
TEST(Philox, KnownAnswer) {
  const std::array<uint32_t, 4> expected = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(Philox(PhiloxKey{0}, 0), expected);
}

TEST(Philox, ElementsDependOnKeyAndIndexAlone) {
  const PhiloxKey a = MakeKey(1, "layer.weight"), b = MakeKey(1, "layer.bias"), c = MakeKey(2, "layer.weight");
  EXPECT_EQ(NormalAt(a, 12345), NormalAt(MakeKey(1, "layer.weight"), 12345));
  std::set<uint64_t> keys = {a.value, b.value, c.value};
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_NE(Philox(a, 7), Philox(a, 8));
}

TEST(Philox, UniformStaysInRangeWithTheRightMean) {
  const PhiloxKey key = MakeKey(3, "u");
  double sum = 0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const float u = UniformAt(key, i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    sum += u;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.005);  // five standard errors
}

TEST(Philox, NormalHasUnitVariance) {
  const PhiloxKey key = MakeKey(3, "n");
  double sum = 0, squares = 0;
  constexpr int kCount = 100000;
  for (uint64_t i = 0; i < kCount; ++i) {
    const double x = NormalAt(key, i);
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.016);
  EXPECT_NEAR(squares / kCount, 1, 0.023);
}

TEST(StableHash, IsFnv1a) {
  EXPECT_EQ(StableHash(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(StableHash("a"), 0xaf63dc4c8601ec8cull);
}

}  // namespace philox_test
}  // namespace twofold
