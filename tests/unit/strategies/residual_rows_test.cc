// Which rows of the residual stream a rank has, along cp and tp.
#include "strategies/model_parallel/residual_rows.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

namespace twofold {
namespace residual_rows_test {

// Every element of the whole is at one place of one rank, in the order that zig-zag chunks, then rows along tp, have
// it.
TEST(ResidualRows, ArePartsOfTheWhole) {
  constexpr int64_t kSamples = 3, kLength = 24, kWidth = 5;
  for (const int cp : {1, 2, 3}) {
    for (const int tp : {1, 2, 4}) {
      std::map<int64_t, int> found;
      for (int i = 0; i < cp; ++i) {
        std::vector<int64_t> rows;  // of the whole, along tp
        for (int64_t sample = 0; sample < kSamples; ++sample) {
          const int64_t chunk = kLength / (2 * cp);
          for (const int64_t number : {int64_t{i}, int64_t{2 * cp - 1 - i}})
            for (int64_t row = 0; row < chunk; ++row) rows.push_back(sample * kLength + number * chunk + row);
        }
        for (int r = 0; r < tp; ++r) {
          const ResidualRows place{.chunks = {.rank = i, .ranks = cp}, .tp = tp, .r = r};
          const Shape local{kSamples, kLength / cp / tp, kWidth};
          const ops::IndexMap positions = place.PositionsOf(local), elements = place.ElementsOf(local);
          for (int64_t e = 0; e < local.numel(); ++e) {
            const int64_t row = rows[static_cast<size_t>(r * local[0] * local[1] + e / kWidth)];
            ASSERT_EQ(elements.Of(e), row * kWidth + e % kWidth) << cp << " " << tp << " element " << e;
            ASSERT_EQ(positions.Of(e / kWidth), row % kLength) << cp << " " << tp << " element " << e;
            ++found[elements.Of(e)];
          }
        }
      }
      EXPECT_EQ(found.size(), static_cast<size_t>(kSamples * kLength * kWidth));
    }
  }
}

}  // namespace residual_rows_test
}  // namespace twofold
