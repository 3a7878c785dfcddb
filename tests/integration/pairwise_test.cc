// Rows of choices in which every pair of choices that fits occurs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tests/integration/pairwise.h"

namespace twofold {
namespace pairwise_test {

using test::kOpen;
using test::Row;

// Three options, of which two exclude each other in one case and one asks for a third: against all 18 rows, one by one.
TEST(Pairwise, RowsHoldEveryPairOfEveryRowThatFits) {
  const auto fits = [](const Row& r) {
    return !(r[0] == 1 && r[1] == 1) && !(r[2] == 2 && r[0] != kOpen && r[0] != 1);
  };
  const test::Factors factors{.choices = {2, 3, 3}, .fits = fits};
  const std::vector<Row> rows = test::PairwiseRows(factors);
  for (const Row& row : rows) EXPECT_TRUE(fits(row));
  int all = 0;
  for (int i = 0; i < 18; ++i) {
    const Row row = {i % 2, i / 2 % 3, i / 6};
    if (!fits(row)) continue;
    ++all;
    for (size_t a = 0; a < 3; ++a) {
      for (size_t b = a + 1; b < 3; ++b) {
        EXPECT_TRUE(
            std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return r[a] == row[a] && r[b] == row[b]; }));
      }
    }
  }
  EXPECT_LT(static_cast<int>(rows.size()), all);
  EXPECT_EQ(rows, test::PairwiseRows(factors)) << "the same rows every time";
}

}  // namespace pairwise_test
}  // namespace twofold
