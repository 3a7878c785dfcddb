#include "core/data/synthetic_dataset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace synthetic_dataset_test {

struct Labelled {
  std::vector<float> features;
  int label;
};

Labelled ReadLabelled(const Dataset& dataset, int64_t index) {
  Labelled sample{std::vector<float>(dataset.input().shape.numel()), 0};
  std::vector<std::byte> label(dataset.target().bytes());
  dataset.Read(index, std::as_writable_bytes(std::span(sample.features)), label);
  if (dataset.target().dtype == DType::kU8) {
    sample.label = std::to_integer<int>(label[0]);
  } else {
    std::memcpy(&sample.label, label.data(), 4);
  }
  return sample;
}

TEST(SyntheticDataset, IsTheSameForTheSameSeedOnly) {
  const auto a = *MakeSyntheticDataset({.samples = 20, .inputs = 7, .classes = 5, .seed = 3});
  const auto b = *MakeSyntheticDataset({.samples = 20, .inputs = 7, .classes = 5, .seed = 3});
  const auto c = *MakeSyntheticDataset({.samples = 20, .inputs = 7, .classes = 5, .seed = 4});
  for (int64_t i : {0, 13, 19}) {
    EXPECT_EQ(ReadLabelled(*a, i).features, ReadLabelled(*b, i).features);
    EXPECT_EQ(ReadLabelled(*a, i).label, ReadLabelled(*b, i).label);
    EXPECT_NE(ReadLabelled(*a, i).features, ReadLabelled(*c, i).features);
  }
}

TEST(SyntheticDataset, ShapesAndTypes) {
  const auto small = *MakeSyntheticDataset({.samples = 9, .inputs = 6, .classes = 256});
  EXPECT_EQ(small->size(), 9);
  EXPECT_EQ(small->input().shape, Shape{6});
  EXPECT_EQ(small->input().dtype, DType::kF32);
  EXPECT_EQ(small->target().shape, Shape{});
  EXPECT_EQ(small->target().dtype, DType::kU8);
  const auto large = *MakeSyntheticDataset({.samples = 200, .inputs = 6, .classes = 1000});
  EXPECT_EQ(large->target().dtype, DType::kI32);
  int highest = 0;
  for (int64_t i = 0; i < 200; ++i) highest = std::max(highest, ReadLabelled(*large, i).label);
  EXPECT_GT(highest, 255);
  EXPECT_LT(highest, 1000);
}

// Features have mean 0 and variance 1; every class occurs; a label is the class of the largest linear score,
// so the mean features of the classes, a crude linear classifier, must do far better than chance.
TEST(SyntheticDataset, IsLearnable) {
  constexpr int kInputs = 8, kClasses = 4, kSamples = 4000;
  const auto dataset = *MakeSyntheticDataset({.samples = kSamples, .inputs = kInputs, .classes = kClasses});
  double means[kClasses][kInputs] = {}, count[kClasses] = {}, sum = 0, squares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const Labelled s = ReadLabelled(*dataset, i);
    ++count[s.label];
    for (int j = 0; j < kInputs; ++j)
      means[s.label][j] += s.features[j], sum += s.features[j], squares += s.features[j] * s.features[j];
  }
  EXPECT_NEAR(sum / (kSamples * kInputs), 0, 0.03);
  EXPECT_NEAR(squares / (kSamples * kInputs), 1, 0.03);
  int right = 0;
  for (int c = 0; c < kClasses; ++c) ASSERT_GT(count[c], 0);
  for (int i = 0; i < kSamples; ++i) {
    const Labelled s = ReadLabelled(*dataset, i);
    double scores[kClasses] = {};
    for (int c = 0; c < kClasses; ++c) {
      for (int j = 0; j < kInputs; ++j) scores[c] += means[c][j] / count[c] * s.features[j];
    }
    right += std::max_element(scores, scores + kClasses) - scores == s.label;
  }
  EXPECT_GT(right, kSamples * 6 / 10);
}

TEST(SyntheticDataset, RefusesSizesThatMakeNoSense) {
  EXPECT_THAT(std::string(MakeSyntheticDataset({.samples = 0}).status().message()),
              ::testing::HasSubstr("samples must be at least 1 (got 0)"));
  EXPECT_FALSE(MakeSyntheticDataset({.inputs = 0}).ok());
  EXPECT_FALSE(MakeSyntheticDataset({.classes = 1}).ok());
}

}  // namespace synthetic_dataset_test
}  // namespace twofold
