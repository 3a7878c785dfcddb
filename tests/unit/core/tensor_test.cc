#include "core/tensor/tensor.h"

#include "gtest/gtest.h"

#include <vector>

namespace twofold {
namespace tensor_test {

class TensorTest : public ::testing::Test {
 protected:
  MallocSource source_;
  CachingAllocator allocator_{source_, 0};
  Tensor New(Shape shape, DType dtype = DType::kF32) { return Allocate(allocator_, shape, dtype, Category::kOther); }
};

TEST_F(TensorTest, KnowsItsShapeAndSize) {
  const Tensor t = New({2, 3, 4}, DType::kBF16);
  EXPECT_EQ(t.numel(), 24);
  EXPECT_EQ(t.bytes(), Bytes(48));
  EXPECT_EQ(t.dim(-1), 4);
  EXPECT_EQ(t.ToString(), "bf16[2, 3, 4]");
  EXPECT_TRUE(Tensor().empty());
  EXPECT_EQ(New({}).numel(), 1);
  EXPECT_EQ(New({0, 7}).bytes(), Bytes(0));
}

TEST_F(TensorTest, ViewsAndSlicesShareTheBuffer) {
  Tensor t = New({4, 5});
  for (int i = 0; i < 20; ++i) t.data<float>()[i] = static_cast<float>(i);
  const Tensor row = t.Slice(10, Shape{1, 5});
  EXPECT_EQ(row.data<float>()[0], 10.0f);
  EXPECT_EQ(row.Slice(2, 3).data<float>()[0], 12.0f);
  EXPECT_EQ(t.View({20}).shape(), Shape({20}));
  t.data<float>()[12] = -1;
  EXPECT_EQ(row.data<float>()[2], -1.0f);
}

TEST_F(TensorTest, TheBufferLivesAsLongAsAView) {
  Tensor slice;
  { slice = New({100}).Slice(50, 10); }
  EXPECT_EQ(allocator_.ledger().stats().live, Bytes(512));
  slice = Tensor();
  EXPECT_EQ(allocator_.ledger().stats().live, Bytes(0));
}

TEST_F(TensorTest, BorrowedHoldsNothing) {
  Tensor t = New({100});
  const Tensor borrowed = t.Slice(10, 20).Borrowed();
  EXPECT_EQ(borrowed.raw(), t.data<float>() + 10);
  EXPECT_EQ(borrowed.ToString(), "f32[20]");
  t = Tensor();
  EXPECT_EQ(allocator_.ledger().stats().live, Bytes(0));
  EXPECT_TRUE(Tensor().Borrowed().empty());
}

// A stream may come to what it was given after the program has let go of it: memory is used again in the stream's
// order, so that the data are still there, and nothing of the borrowed tensor may lie in what the program has let go
// of.
TEST_F(TensorTest, BorrowedSaysWhereTheDataAreWhenTheBufferIsGone) {
  VirtualSource nowhere;
  CachingAllocator symbolic(nowhere, 0);
  Tensor t = New({100});
  const Address address = t.address();
  const Tensor borrowed = t.Borrowed();
  t = Tensor();
  std::vector<Tensor> others;  // in the place of what is gone
  for (int i = 0; i < 100; ++i) others.push_back(Allocate(symbolic, {1}, DType::kF32, Category::kOther));
  EXPECT_TRUE(borrowed.has_data());
  EXPECT_EQ(borrowed.address(), address);
  EXPECT_EQ(borrowed.Slice(10, 20).address(), address + 40);
  EXPECT_FALSE(borrowed.unique());  // others than its owner never overwrite it
}

using TensorDeathTest = TensorTest;

TEST_F(TensorDeathTest, RefusesWhatDoesNotFit) {
  const Tensor t = New({4, 5});
  EXPECT_DEATH(t.View({21}), "21 against 20");
  EXPECT_DEATH(t.Slice(15, 6), "21 against 20");
  EXPECT_DEATH(t.data<double>(), "element type");
}

TEST_F(TensorDeathTest, SymbolicTensorsHaveNoData) {
  VirtualSource source;
  CachingAllocator allocator(source, 0);
  const Tensor t = Allocate(allocator, {8}, DType::kF32, Category::kOther);
  EXPECT_FALSE(t.has_data());
  EXPECT_DEATH(t.raw(), "symbolic");
}

TEST(DTypes, NarrowFloatsRoundToNearestEven) {
  EXPECT_EQ(static_cast<float>(BF16(1.0f)), 1.0f);
  EXPECT_EQ(BF16(1.00390625f).bits, BF16(1.0f).bits);           // halfway, to even
  EXPECT_EQ(static_cast<float>(BF16(1.01171875f)), 1.015625f);  // halfway, up to even
  EXPECT_NE(static_cast<float>(BF16(__builtin_nanf(""))), static_cast<float>(BF16(__builtin_nanf(""))));
  EXPECT_EQ(static_cast<float>(F16(65504.0f)), 65504.0f);
  EXPECT_EQ(static_cast<float>(F16(2049.0f)), 2048.0f);
}

}  // namespace tensor_test
}  // namespace twofold
