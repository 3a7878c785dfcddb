// The checker: what is right is found right, whatever is wrong is counted.
#include "experiments/program/bench/expectation.h"

#include <cmath>
#include <limits>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::bench {
namespace expectation_test {

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8};
constexpr ReduceOp kReduces[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};
constexpr int64_t kBlock = 1000;

class ExpectationTest : public testing::Test {
 protected:
  Tensor New(int64_t n, DType dtype) { return device_.NewTensor(Shape{n}, dtype, Category::kOther); }
  Expectation Of(std::string_view name, int ranks, int rank, DType dtype = DType::kF32,
                 ReduceOp reduce = ReduceOp::kSum, int root = 0) {
    return Expectation(*FindOperation(name), dtype, reduce, root, ranks, rank);
  }
  // A tensor that holds what `e` wants.
  Tensor Right(const Expectation& e, int64_t n) {
    Tensor t = New(n, DType::kF32);
    for (int64_t i = 0; i < n; ++i) t.data<float>()[i] = static_cast<float>(e.Output(i, kBlock));
    return t;
  }

  MallocSource source_;
  CachingAllocator allocator_{source_, 0};
  CpuDevice device_{allocator_, 1};
};

TEST_F(ExpectationTest, CountsEveryCorruptedElement) {
  for (const Operation& op : Operations()) {
    const Expectation e(op, DType::kF32, ReduceOp::kSum, 0, 4, 0);
    const int64_t n = 4 * kBlock;
    Tensor t = Right(e, n);
    EXPECT_EQ(e.CountWrong(device_, t, kBlock), 0) << op.name;
    for (int64_t i : {int64_t{0}, int64_t{17}, n - 1}) t.data<float>()[i] += 1;
    EXPECT_EQ(e.CountWrong(device_, t, kBlock), 3) << op.name;
    t.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
    t.data<float>()[6] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(e.CountWrong(device_, t, kBlock), 5) << op.name;
  }
}

TEST_F(ExpectationTest, CountsAcrossItsOwnChunks) {
  const Expectation e = Of("broadcast", 2, 0);
  const int64_t n = (1 << 19) + 3;
  Tensor t = Right(e, n);
  EXPECT_EQ(e.CountWrong(device_, t, n), 0);
  for (int64_t i : {int64_t{1} << 18, (int64_t{1} << 18) - 1, n - 1}) t.data<float>()[i] = 0;
  EXPECT_EQ(e.CountWrong(device_, t, n), 3);
}

TEST_F(ExpectationTest, ZerosAreAlwaysWrong) {
  for (DType dtype : kTypes) {
    for (const Operation& op : Operations()) {
      const Expectation e(op, dtype, ReduceOp::kSum, 0, 4, 0);
      Tensor t = New(kBlock, dtype);
      device_.Launch(device_.compute(), ops::Fill{.out = t, .value = 0});
      EXPECT_EQ(e.CountWrong(device_, t, kBlock / 4), kBlock) << op.name << " " << DTypeName(dtype);
    }
  }
}

TEST_F(ExpectationTest, OwnInputIsNoSum) {
  for (int ranks : {2, 3, 80}) {
    const Expectation e = Of("all_reduce", ranks, 1, DType::kBF16);
    Tensor t = New(kBlock, DType::kBF16);
    e.FillInput(device_, t);
    EXPECT_EQ(e.CountWrong(device_, t, kBlock), kBlock) << ranks;
  }
}

TEST_F(ExpectationTest, BlocksInTheWrongPlaceAreWrong) {
  const Expectation e = Of("all_gather", 4, 0);
  Tensor t = Right(e, 4 * kBlock);
  std::swap_ranges(t.data<float>(), t.data<float>() + kBlock, t.data<float>() + kBlock);
  EXPECT_GT(e.CountWrong(device_, t, kBlock), 2 * kBlock * 9 / 10);
  const Expectation mine = Of("reduce_scatter", 4, 2), other = Of("reduce_scatter", 4, 3);
  EXPECT_GT(mine.CountWrong(device_, Right(other, kBlock), kBlock), kBlock / 2);
}

// A reduction done by hand, in each type, in an order that is not that of ranks, rounding at every step.
template <class T>
void ReduceByHand(ExpectationTest&, Device& device, ReduceOp reduce, int ranks, const Expectation& e, Tensor& t) {
  using A = std::conditional_t<sizeof(T) == 2, float, T>;
  for (int64_t i = 0; i < t.numel(); ++i) {
    T value = T(static_cast<A>(e.Input(ranks - 1, i)));
    for (int r = ranks - 2; r >= 0; --r) {
      const A a = static_cast<A>(value), b = static_cast<A>(e.Input(r, i));
      const A both = reduce == ReduceOp::kProduct ? static_cast<A>(a * b)
                     : reduce == ReduceOp::kMin   ? std::min(a, b)
                     : reduce == ReduceOp::kMax   ? std::max(a, b)
                                                  : static_cast<A>(a + b);
      value = T(both);
    }
    if (reduce == ReduceOp::kAvg) value = T(static_cast<A>(static_cast<A>(value) / static_cast<A>(ranks)));
    t.data<T>()[i] = value;
  }
  EXPECT_EQ(e.CountWrong(device, t, t.numel()), 0)
      << DTypeName(t.dtype()) << " " << ReduceOpName(reduce) << " " << ranks;
}

TEST_F(ExpectationTest, AcceptsAnyOrderInEveryType) {
  for (ReduceOp reduce : kReduces) {
    for (int ranks : {1, 2, 7, 100, 300}) {
      const auto check = [&]<class T>() {
        if (DTypeOf<T>::value == DType::kU8 && ranks > 255 && reduce == ReduceOp::kAvg) return;  // no such mean fits
        const Expectation e = Of("all_reduce", ranks, 0, DTypeOf<T>::value, reduce);
        Tensor t = New(kBlock, DTypeOf<T>::value);
        ReduceByHand<T>(*this, device_, reduce, ranks, e, t);
      };
      check.template operator()<double>(), check.template operator()<float>(), check.template operator()<BF16>();
      check.template operator()<F16>(), check.template operator()<int32_t>(), check.template operator()<uint8_t>();
    }
  }
}

TEST_F(ExpectationTest, IsExactWhereTheTypeIs) {
  EXPECT_EQ(Of("all_reduce", 256, 0, DType::kBF16).tolerance(), 0);
  EXPECT_GT(Of("all_reduce", 257, 0, DType::kBF16).tolerance(), 0);
  EXPECT_EQ(Of("all_reduce", 4096, 0, DType::kF32).tolerance(), 0);
  EXPECT_GT(Of("all_reduce", 4, 0, DType::kF32, ReduceOp::kAvg).tolerance(), 0);
  EXPECT_EQ(Of("all_reduce", 4, 0, DType::kI32, ReduceOp::kAvg).tolerance(), 0);
  EXPECT_EQ(Of("all_gather", 4096, 0, DType::kBF16).tolerance(), 0);
}

TEST_F(ExpectationTest, EveryRankCounts) {
  for (ReduceOp reduce : {ReduceOp::kSum, ReduceOp::kProduct}) {
    const Expectation e = Of("all_reduce", 12, 0, DType::kF32, reduce);
    for (int left_out = 0; left_out < 12; ++left_out) {
      int64_t noticed = 0;
      for (int64_t i = 0; i < kBlock; ++i) {
        double value = reduce == ReduceOp::kSum ? 0 : 1;
        for (int r = 0; r < 12; ++r) {
          const auto x = static_cast<double>(e.Input(r, i));
          if (r != left_out) value = reduce == ReduceOp::kSum ? value + x : value * x;
        }
        noticed += value != e.Output(i, kBlock);
      }
      EXPECT_GT(noticed, kBlock / 8) << ReduceOpName(reduce) << " without rank " << left_out;
    }
  }
}

}  // namespace expectation_test
}  // namespace twofold::bench
