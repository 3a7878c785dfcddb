#include "core/data/synthetic_images.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

#include "tests/unit/data/scratch_files.h"

namespace twofold {
namespace synthetic_images_test {

struct Image {
  std::vector<float> pixels;
  int label;
};
Image ReadImage(const Dataset& data, int64_t index) {
  Image image{std::vector<float>(data.input().shape.numel()), 0};
  std::vector<std::byte> label(data.target().bytes());
  data.Read(index, std::as_writable_bytes(std::span(image.pixels)), label);
  image.label = std::to_integer<int>(label[0]);
  return image;
}

TEST(SyntheticImages, AreTheSameForTheSameSeedOnly) {
  const auto a = *MakeSyntheticImages({.samples = 20, .height = 9, .width = 5, .channels = 2, .classes = 5, .seed = 3});
  const auto b = *MakeSyntheticImages({.samples = 30, .height = 9, .width = 5, .channels = 2, .classes = 5, .seed = 3});
  const auto c = *MakeSyntheticImages({.samples = 20, .height = 9, .width = 5, .channels = 2, .classes = 5, .seed = 4});
  EXPECT_EQ(a->input().shape, (Shape{9, 5, 2}));
  for (int64_t i : {0, 13, 19}) {
    EXPECT_EQ(ReadImage(*a, i).pixels, ReadImage(*b, i).pixels);
    EXPECT_EQ(ReadImage(*a, i).label, ReadImage(*b, i).label);
    EXPECT_NE(ReadImage(*a, i).pixels, ReadImage(*c, i).pixels);
  }
}

// Pixels have mean 0 and variance 2; every class's mean image is 0, so that no linear model can tell classes apart.
TEST(SyntheticImages, HaveClassesThatAreTheSameOnAverage) {
  constexpr int kSamples = 6000, kClasses = 4, kPixels = 8 * 8 * 3;
  const auto data =
      *MakeSyntheticImages({.samples = kSamples, .height = 8, .width = 8, .channels = 3, .classes = kClasses});
  std::vector<double> means(kClasses * kPixels);
  double count[kClasses] = {}, squares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const Image image = ReadImage(*data, i);
    ++count[image.label];
    for (int j = 0; j < kPixels; ++j) {
      means[image.label * kPixels + j] += image.pixels[j];
      squares += image.pixels[j] * image.pixels[j];
    }
  }
  EXPECT_NEAR(squares / (kSamples * kPixels), 2, 0.02);
  for (int c = 0; c < kClasses; ++c) {
    ASSERT_GT(count[c], kSamples / kClasses * 0.85);
    for (int j = 0; j < kPixels; ++j)  // 5 deviations of a mean of so many
      ASSERT_NEAR(means[c * kPixels + j] / count[c], 0, 5 * std::sqrt(2 / count[c])) << c << " " << j;
  }
}

// The squared product with the texture, wherever it begins, tells the class: what a convolution and a sum can compute.
TEST(SyntheticImages, AreLearnableByConvolutions) {
  constexpr int kClasses = 4, kSide = 8;
  const auto data =
      *MakeSyntheticImages({.samples = 400, .height = kSide, .width = kSide, .channels = 1, .classes = kClasses});
  // A class's autocorrelation survives places and signs; it is estimated from the first half and tested on the second.
  const auto correlation = [](const Image& image) {
    std::vector<double> sums(kSide * kSide);
    for (int dr = 0; dr < kSide; ++dr)
      for (int dc = 0; dc < kSide; ++dc)
        for (int r = 0; r < kSide; ++r)
          for (int c = 0; c < kSide; ++c)
            sums[dr * kSide + dc] +=
                image.pixels[r * kSide + c] * image.pixels[(r + dr) % kSide * kSide + (c + dc) % kSide];
    return sums;
  };
  std::vector<std::vector<double>> means(kClasses, std::vector<double>(kSide * kSide));
  std::vector<double> count(kClasses);
  for (int i = 0; i < 200; ++i) {
    const Image image = ReadImage(*data, i);
    const std::vector<double> sums = correlation(image);
    ++count[image.label];
    for (size_t j = 0; j < sums.size(); ++j) means[image.label][j] += sums[j];
  }
  int right = 0;
  for (int i = 200; i < 400; ++i) {
    const Image image = ReadImage(*data, i);
    const std::vector<double> sums = correlation(image);
    int best = 0;
    double least = 1e300;
    for (int c = 0; c < kClasses; ++c) {
      double distance = 0;
      for (size_t j = 0; j < sums.size(); ++j) distance += std::pow(sums[j] - means[c][j] / count[c], 2);
      if (distance < least) least = distance, best = c;
    }
    right += best == image.label;
  }
  EXPECT_GT(right, 120);  // of 200; chance is 50
}

TEST(SyntheticImages, RefuseSizesThatMakeNoSense) {
  EXPECT_THAT(std::string(MakeSyntheticImages({.height = 0}).status().message()),
              ::testing::HasSubstr("height must be at least 1 (got 0)"));
  EXPECT_FALSE(MakeSyntheticImages({.samples = 0}).ok());
  EXPECT_FALSE(MakeSyntheticImages({.classes = 1}).ok());
}

}  // namespace synthetic_images_test
}  // namespace twofold
