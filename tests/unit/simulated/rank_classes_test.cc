// Which ranks are of one class.
#include "backends/simulated/rank_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twofold {
namespace rank_classes_test {

using ::testing::ElementsAre;

std::vector<Meetings> MeetingsOf(const MeshShape& mesh, std::vector<MeshGroup> along) {
  std::vector<Meetings> all;
  for (const MeshGroup kind : along) all.push_back({std::make_shared<const GroupList>(GroupsOf(mesh, kind))});
  return all;
}

TEST(RankClasses, KindsThatMeetAlikeStay) {
  const MeshShape mesh{.pp = 2, .dp = 2, .tp = 2};
  const auto meetings = MeetingsOf(mesh, {MeshGroup::kPp, MeshGroup::kDp, MeshGroup::kTp});
  EXPECT_THAT(RefineClasses({0, 0, 0, 0, 1, 1, 1, 1}, meetings), ElementsAre(0, 0, 0, 0, 4, 4, 4, 4));
  EXPECT_THAT(RefineClasses({0, 1, 0, 1, 2, 3, 2, 3}, meetings), ElementsAre(0, 1, 0, 1, 4, 5, 4, 5));
  EXPECT_THAT(RefineClasses({7, 7, 7, 7, 7, 7, 7, 7}, meetings), testing::Each(0)) << "numbers do not matter";
}

// Rank 0 of 64 is slow: those that meet it, those that meet these, and all others.
TEST(RankClasses, OneThatDiffersSplitsWhatItTouches) {
  const MeshShape mesh{.dp = 16, .tp = 4};
  std::vector<int> kinds(64);
  kinds[0] = 1;
  const std::vector<int> classes = RefineClasses(kinds, MeetingsOf(mesh, {MeshGroup::kDp, MeshGroup::kTp}));
  EXPECT_THAT(StandIns(classes), ElementsAre(0, 1, 4, 5)) << "itself, along tp, along dp, all others";
  for (int r = 0; r < 64; ++r) {
    const MeshPlace at = PlaceOf(mesh, r);
    EXPECT_EQ(classes[static_cast<size_t>(r)], (at.dp == 0 ? 0 : 4) + (at.tp == 0 ? 0 : 1)) << r;
  }
  EXPECT_THAT(StandIns(RefineClasses(kinds, {})), ElementsAre(0, 1)) << "it meets nobody";
}

TEST(RankClasses, GroupsOnOtherKindsOfPlacesAreApart) {
  const MeshShape mesh{.dp = 4, .tp = 2};
  auto meetings = MeetingsOf(mesh, {MeshGroup::kDp, MeshGroup::kTp});
  meetings[1].places = {5, 5, 6, 5};  // ranks 4 and 5
  EXPECT_THAT(RefineClasses(std::vector<int>(8), meetings), ElementsAre(0, 0, 0, 0, 4, 4, 0, 0));
}

TEST(RankClasses, BothOfIsEqualWhereBothAre) {
  EXPECT_THAT(BothOf(std::vector{3, 3, 1, 1, 3}, std::vector{0, 2, 0, 0, 0}), ElementsAre(0, 1, 2, 2, 0));
}

}  // namespace rank_classes_test
}  // namespace twofold
