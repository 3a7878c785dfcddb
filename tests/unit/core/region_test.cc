// Regions against lists of elements.
#include "core/tensor/region.h"

#include <vector>

#include "gtest/gtest.h"

namespace twofold {
namespace region_test {

// The elements of a region, from its definition: the columns of row after row, and of these a range.
std::vector<int64_t> Elements(const Region& region, int64_t rows) {
  std::vector<int64_t> band;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = region.column; c < region.column + region.width; ++c) band.push_back(r * region.row + c);
  }
  return {band.begin() + region.first, band.begin() + region.first + region.count};
}

std::vector<int64_t> ByIndex(const Region& region) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < region.count; ++i) elements.push_back(region.IndexOf(i));
  return elements;
}

// Calls f(region, rows) for every region that is not empty of wholes with few rows and columns.
template <class F>
void ForAll(F f) {
  for (int64_t rows = 1; rows <= 3; ++rows)
    for (int64_t row = 1; row <= 4; ++row)
      for (int64_t column = 0; column < row; ++column)
        for (int64_t width = 1; column + width <= row; ++width)
          for (int64_t first = 0; first < rows * width; ++first)
            for (int64_t count = 1; first + count <= rows * width; ++count)
              f(Region{row, column, width, first, count}, rows);
}

TEST(Region, HasTheElementsOfItsDefinition) {
  ForAll([](const Region& region, int64_t rows) {
    const std::vector<int64_t> elements = Elements(region, rows);
    ASSERT_EQ(ByIndex(region), elements);
    EXPECT_EQ(region.contiguous(), region.width == region.row);
    std::vector<int64_t> visited;
    int64_t last = -2;
    region.ForRuns([&](int64_t i, int64_t index, int64_t n) {
      EXPECT_EQ(i, static_cast<int64_t>(visited.size()));
      EXPECT_NE(index, last) << "runs are as long as can be";
      EXPECT_EQ(region.RunFrom(i), n);
      for (int64_t e = 0; e < n; ++e) visited.push_back(index + e);
      last = index + n;
    });
    EXPECT_EQ(visited, elements);
    EXPECT_EQ(ByIndex(region.Band(rows * region.row)).size(), static_cast<size_t>(rows * region.width));
  });
}

TEST(Region, ASliceHasASliceOfTheElements) {
  ForAll([](const Region& region, int64_t rows) {
    const std::vector<int64_t> elements = Elements(region, rows);
    for (int64_t i = 0; i < region.count; ++i) {
      for (int64_t n = 0; i + n <= region.count; ++n) {
        const Region slice = region.Slice(i, n);
        ASSERT_EQ(ByIndex(slice), std::vector<int64_t>(elements.begin() + i, elements.begin() + i + n));
        EXPECT_TRUE(region.Slice(i + n, region.count - i - n).Continues(slice));
        EXPECT_EQ(slice == region, n == region.count);
      }
    }
  });
}

TEST(Region, FindsWhatItsBandHasOfARunOfTheWhole) {
  ForAll([](const Region& region, int64_t rows) {
    const int64_t numel = rows * region.row;
    const std::vector<int64_t> band = Elements(region.Band(numel), rows);
    for (int64_t index = 0; index < numel; ++index) {
      for (int64_t n = 0; index + n <= numel; ++n) {
        std::vector<int64_t> found, expected;
        region.ForOverlap(index, n, [&](int64_t at, int64_t place, int64_t count) {
          for (int64_t e = 0; e < count; ++e) {
            found.push_back(index + at + e);
            ASSERT_EQ(band[static_cast<size_t>(place + e)], index + at + e);
          }
        });
        for (const int64_t element : band) {
          if (element >= index && element < index + n) expected.push_back(element);
        }
        ASSERT_EQ(found, expected);
      }
    }
  });
}

TEST(Region, AlongADimension) {
  for (int64_t a = 1; a <= 3; ++a)
    for (int64_t b = 1; b <= 3; ++b)
      for (int64_t c = 1; c <= 3; ++c)
        for (int dim = 0; dim < 3; ++dim) {
          const Shape whole{a, b, c};
          for (int64_t first = 0; first < whole[dim]; ++first) {
            for (int64_t count = 1; first + count <= whole[dim]; ++count) {
              std::vector<int64_t> expected;
              for (int64_t i = 0; i < whole.numel(); ++i) {
                const int64_t at = dim == 0 ? i / (b * c) : dim == 1 ? i / c % b : i % c;
                if (at >= first && at < first + count) expected.push_back(i);
              }
              const Region region = Region::Along(whole, dim, first, count);
              ASSERT_EQ(ByIndex(region), expected) << whole << " along " << dim;
              EXPECT_TRUE(region.contiguous() || (dim > 0 && count < whole[dim]));
              EXPECT_EQ(region == Region::Whole(whole.numel()), count == whole[dim]);
            }
          }
        }
  EXPECT_EQ(ByIndex(Region::Run(10, 4, 3)), (std::vector<int64_t>{4, 5, 6}));
  EXPECT_DEATH(Region::Along(Shape{3, 2}, 1, 1, 2), "a range along a dimension of the tensor");
}

}  // namespace region_test
}  // namespace twofold
