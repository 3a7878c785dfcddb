#include "core/base/rank_list.h"

#include "gtest/gtest.h"

namespace twofold {
namespace rank_list_test {

TEST(RankList, RunsOfThreeAndMoreAreRanges) {
  EXPECT_EQ(RankList({}), "no rank");
  EXPECT_EQ(RankList(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(RankList(std::vector<int>{2, 3}), "ranks 2, 3");
  EXPECT_EQ(RankList(std::vector<int>{0, 1, 2, 4, 6, 7, 8, 9}), "ranks 0-2, 4, 6-9");
}

}  // namespace rank_list_test
}  // namespace twofold
