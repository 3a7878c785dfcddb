// The yardstick: the reference against arithmetic written out here, and what its tolerance lets pass.
#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace twofold::conformance {
namespace reference_test {

constexpr int64_t kCount = 3000;  // several blocks, and not a whole number of them
constexpr int kRanks = 7;

template <class T>
std::vector<T> Take(const Series& series, int64_t first, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  Write(DTypeOf<T>::value, series, first, std::as_writable_bytes(std::span(values)));
  return values;
}
std::vector<Series> Inputs(bool near_one = false) {
  std::vector<Series> inputs;
  for (int r = 0; r < kRanks; ++r) inputs.push_back({.rank = r, .salt = 3, .near_one = near_one});
  return inputs;
}
template <class T>
auto Judge(const std::vector<T>& values, std::span<const Series> inputs, ReduceOp op, bool exact) {
  return CompareReduced(DTypeOf<T>::value, std::as_bytes(std::span(values)), inputs, op, 0, exact);
}
// Rank by rank, narrow types rounded at every step; from the last rank to the first where `backwards`.
template <class T, class F>
std::vector<T> StepByStep(std::vector<Series> inputs, bool backwards, F combine) {
  if (backwards) std::reverse(inputs.begin(), inputs.end());
  std::vector<T> result = Take<T>(inputs[0], 0, kCount);
  for (size_t r = 1; r < inputs.size(); ++r) {
    const std::vector<T> next = Take<T>(inputs[r], 0, kCount);
    for (size_t i = 0; i < result.size(); ++i) result[i] = combine(result[i], next[i]);
  }
  return result;
}
constexpr auto kAdd = [](auto a, auto b) {
  using T = decltype(a);
  if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(a) + static_cast<float>(b));
  else
    return static_cast<T>(a + b);
};
constexpr auto kMultiply = [](auto a, auto b) {
  using T = decltype(a);
  if constexpr (sizeof(T) == 2)
    return T(static_cast<float>(a) * static_cast<float>(b));
  else
    return static_cast<T>(a * b);
};
constexpr auto kLesser = [](auto a, auto b) {
  if constexpr (sizeof(a) == 2)
    return static_cast<float>(b) < static_cast<float>(a) ? b : a;
  else
    return b < a ? b : a;
};

TEST(Reference, AnElementDependsOnItsIndexAlone) {
  const Series s{.rank = 2, .salt = 5};
  const std::vector<float> whole = Take<float>(s, 0, kCount), part = Take<float>(s, 1000, 500);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 1000));
  EXPECT_FALSE(Compare(DType::kF32, std::as_bytes(std::span(part)), s, 1000));
}

TEST(Reference, RanksSaltsAndIndicesDiffer) {
  const std::vector<float> values = Take<float>({.rank = 1, .salt = 1}, 0, kCount);
  const auto bytes = std::as_bytes(std::span(values));
  EXPECT_FALSE(Compare(DType::kF32, bytes, {.rank = 1, .salt = 1}, 0));
  EXPECT_TRUE(Compare(DType::kF32, bytes, {.rank = 2, .salt = 1}, 0));
  EXPECT_TRUE(Compare(DType::kF32, bytes, {.rank = 1, .salt = 2}, 0));
  EXPECT_TRUE(Compare(DType::kF32, bytes, {.rank = 1, .salt = 1}, 1));
}

TEST(Reference, NamesTheFirstElementThatIsWrong) {
  std::vector<int32_t> values = Take<int32_t>({.rank = 1}, 0, kCount);
  const int32_t right = values[2500];
  values[2500] = 777;
  values[2999] = 777;
  const auto difference = Compare(DType::kI32, std::as_bytes(std::span(values)), {.rank = 1}, 0);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 2500);
  EXPECT_EQ(difference->value, 777);
  EXPECT_EQ(difference->expected, right);
}

TEST(Reference, ExactIsInRankOrderWithOneRounding) {
  EXPECT_FALSE(Judge(StepByStep<float>(Inputs(), false, kAdd), Inputs(), ReduceOp::kSum, true));
  EXPECT_TRUE(Judge(StepByStep<float>(Inputs(), true, kAdd), Inputs(), ReduceOp::kSum, true))
      << "another order, other bits";
  EXPECT_TRUE(Judge(StepByStep<double>(Inputs(), true, kAdd), Inputs(), ReduceOp::kSum, true));
  EXPECT_TRUE(Judge(StepByStep<BF16>(Inputs(), false, kAdd), Inputs(), ReduceOp::kSum, true))
      << "rounded at every step";
  EXPECT_FALSE(Judge(StepByStep<int32_t>(Inputs(), true, kAdd), Inputs(), ReduceOp::kSum, true));
  EXPECT_FALSE(Judge(StepByStep<uint8_t>(Inputs(), true, kMultiply), Inputs(true), ReduceOp::kProduct, true))
      << "wraps";
}

template <class T>
class Tolerance : public testing::Test {};
using Floats = testing::Types<double, float, BF16, F16>;
TYPED_TEST_SUITE(Tolerance, Floats);

TYPED_TEST(Tolerance, AllowsAnyOrderAndRoundingAtEveryStep) {
  for (bool backwards : {false, true}) {
    EXPECT_FALSE(Judge(StepByStep<TypeParam>(Inputs(), backwards, kAdd), Inputs(), ReduceOp::kSum, false));
    EXPECT_FALSE(
        Judge(StepByStep<TypeParam>(Inputs(true), backwards, kMultiply), Inputs(true), ReduceOp::kProduct, false));
  }
}

TYPED_TEST(Tolerance, NoticesAMissingRank) {
  std::vector<Series> fewer = Inputs();
  fewer.pop_back();
  const auto difference = Judge(StepByStep<TypeParam>(fewer, false, kAdd), Inputs(), ReduceOp::kSum, false);
  ASSERT_TRUE(difference);
  EXPECT_GT(std::fabs(difference->value - difference->expected), difference->tolerance);
  EXPECT_GT(difference->tolerance, 0);
}

TYPED_TEST(Tolerance, NoticesNoNumber) {
  std::vector<TypeParam> values = StepByStep<TypeParam>(Inputs(), false, kAdd);
  values[1234] = TypeParam(NAN);
  const auto difference = Judge(values, Inputs(), ReduceOp::kSum, false);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->index, 1234);
}

TYPED_TEST(Tolerance, LetsMinimaBeExactOnly) {
  const std::vector<TypeParam> sums = StepByStep<TypeParam>(Inputs(), false, kAdd);
  EXPECT_TRUE(Judge(sums, Inputs(), ReduceOp::kMin, false));
  EXPECT_FALSE(Judge(StepByStep<TypeParam>(Inputs(), true, kLesser), Inputs(), ReduceOp::kMin, false));
}

// So that products of all ranks are tested, and not infinities or zeros.
TEST(Reference, ProductsStayWithinF16) {
  for (const F16 x : StepByStep<F16>(Inputs(true), false, kMultiply)) {
    EXPECT_GE(std::fabs(static_cast<float>(x)), 0x1p-8f);
    EXPECT_LE(std::fabs(static_cast<float>(x)), 0x1p7f);
  }
}

}  // namespace reference_test
}  // namespace twofold::conformance
