#include "core/data/slice_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/data/synthetic_dataset.h"

namespace twofold {
namespace slice_dataset_test {

std::shared_ptr<const Dataset> Whole() {
  auto data = MakeSyntheticDataset({.samples = 10, .inputs = 3, .classes = 4, .seed = 2});
  EXPECT_TRUE(data.ok());
  return *std::move(data);
}

std::vector<std::byte> Sample(const Dataset& data, int64_t index) {
  std::vector<std::byte> bytes(static_cast<size_t>(data.input().bytes() + data.target().bytes()));
  const auto inputs = static_cast<size_t>(data.input().bytes());
  data.Read(index, std::span(bytes).first(inputs), std::span(bytes).subspan(inputs));
  return bytes;
}

TEST(Slice, HoldsItsPartOfTheWhole) {
  const auto whole = Whole();
  const auto part = MakeSlice(whole, 7, 3);
  ASSERT_EQ(part->size(), 3);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(Sample(*part, i), Sample(*whole, 7 + i));
  EXPECT_NE(Sample(*part, 0), Sample(*whole, 0));
  EXPECT_EQ(part->input().shape, whole->input().shape);
  EXPECT_THAT(part->Describe(), ::testing::HasSubstr("samples 7 to 9 of "));
}

TEST(SliceDeathTest, StaysWithinTheWhole) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(MakeSlice(Whole(), 8, 3), "11 against 10");
  EXPECT_DEATH(MakeSlice(Whole(), 0, 0), "0 against 1");
  EXPECT_DEATH(Sample(*MakeSlice(Whole(), 0, 3), 3), "3 against 3");
}

}  // namespace slice_dataset_test
}  // namespace twofold
