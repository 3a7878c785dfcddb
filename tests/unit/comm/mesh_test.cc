#include "core/comm/device_mesh.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace mesh_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Groups = std::vector<std::vector<int>>;

constexpr MeshGroup kAll[] = {MeshGroup::kPp,
                              MeshGroup::kDp,
                              MeshGroup::kCp,
                              MeshGroup::kTp,
                              MeshGroup::kEp,
                              MeshGroup::kReplicas,
                              MeshGroup::kExpertReplicas,
                              MeshGroup::kModel};

TEST(CheckMesh, AcceptsWhatMultipliesToTheWorld) {
  EXPECT_TRUE(CheckMesh({.pp = 2, .dp = 3, .cp = 1, .tp = 4}, 24).ok());
  EXPECT_TRUE(CheckMesh({.dp = 4, .ep = 2}, 4).ok());  // ep takes no ranks of its own
  EXPECT_TRUE(CheckMesh({}, 1).ok());
}

TEST(CheckMesh, ShowsBothSides) {
  const absl::Status status = CheckMesh({.pp = 2, .dp = 3}, 8);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "parallel: pp * dp * cp * tp = 2 * 3 * 1 * 1 = 6, but there are 8 ranks");
}

TEST(CheckMesh, RefusesExtentsBelowOne) {
  EXPECT_EQ(CheckMesh({.tp = 0}, 1).message(), "parallel.tp must be at least 1 (got 0)");
  EXPECT_EQ(CheckMesh({.ep = -2}, 1).message(), "parallel.ep must be at least 1 (got -2)");
  EXPECT_FALSE(CheckMesh({.dp = -1, .tp = -1}, 1).ok());
}

TEST(CheckMesh, RefusesExpertsThatDoNotDivideReplicas) {
  EXPECT_EQ(CheckMesh({.dp = 4, .ep = 3}, 4).message(), "parallel.ep must divide parallel.dp (ep is 3, dp is 4)");
}

TEST(ParseMeshOrder, TakesEachAxisOnce) {
  const auto order = ParseMeshOrder(" tp  pp cp dp ");
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_THAT(*order, ElementsAre(Axis::kTp, Axis::kPp, Axis::kCp, Axis::kDp));
}

TEST(ParseMeshOrder, SaysWhatIsWrong) {
  for (const char* text :
       {"", "pp dp cp", "pp dp cp tp tp", "pp pp cp tp", "pp dp cp ep", "pp,dp,cp,tp", "PP dp cp tp"}) {
    const auto order = ParseMeshOrder(text);
    ASSERT_FALSE(order.ok()) << text;
    EXPECT_EQ(order.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(order.status().message()), HasSubstr(std::string("\"") + text + "\"")) << text;
    EXPECT_THAT(std::string(order.status().message()), HasSubstr("such as \"pp dp cp tp\"")) << text;
  }
}

TEST(MeshPlace, TensorRanksAreNeighbours) {
  const MeshShape shape{.pp = 2, .dp = 3, .cp = 2, .tp = 4};
  const MeshPlace place = PlaceOf(shape, 1 * 24 + 2 * 8 + 1 * 4 + 3);
  EXPECT_EQ(place.pp, 1);
  EXPECT_EQ(place.dp, 2);
  EXPECT_EQ(place.cp, 1);
  EXPECT_EQ(place.tp, 3);
  EXPECT_EQ(RankAt(shape, {.tp = 1}), 1);
}

TEST(MeshPlace, FollowsTheOrder) {
  const MeshShape shape{.pp = 2, .dp = 3, .cp = 2, .tp = 4, .order = {Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp}};
  EXPECT_EQ(RankAt(shape, {.pp = 1}), 1);
  EXPECT_EQ(RankAt(shape, {.dp = 1}), 2);
  EXPECT_EQ(RankAt(shape, {.cp = 1}), 6);
  EXPECT_EQ(RankAt(shape, {.tp = 1}), 12);
}

const MeshShape kShapes[] = {
    {},
    {.dp = 6},
    {.pp = 2, .dp = 4, .cp = 3, .tp = 2, .ep = 2},
    {.pp = 2, .dp = 4, .cp = 3, .tp = 2, .ep = 4, .order = {Axis::kDp, Axis::kTp, Axis::kPp, Axis::kCp}},
    {.pp = 3, .dp = 2, .cp = 1, .tp = 5, .order = {Axis::kCp, Axis::kTp, Axis::kDp, Axis::kPp}},
};

TEST(MeshPlace, AndRankAreEachOthersInverse) {
  for (const MeshShape& shape : kShapes) {
    for (int rank = 0; rank < shape.size(); ++rank) EXPECT_EQ(RankAt(shape, PlaceOf(shape, rank)), rank);
  }
}

TEST(GroupsOf, HoldEveryRankOnce) {
  for (const MeshShape& shape : kShapes) {
    for (const MeshGroup along : kAll) {
      std::set<int> seen;
      const Groups groups = GroupsOf(shape, along);
      int first = -1;
      for (const std::vector<int>& group : groups) {
        EXPECT_EQ(group.size(), groups[0].size());
        EXPECT_GT(group[0], first) << "by their first rank";
        first = group[0];
        seen.insert(group.begin(), group.end());
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(shape.size())) << MeshGroupName(along);
      EXPECT_EQ(groups.size() * groups[0].size(), static_cast<size_t>(shape.size())) << MeshGroupName(along);
    }
  }
}

// In a group along one axis, that coordinate counts up from 0 and no other changes.
TEST(GroupsOf, OneAxisChangesThatCoordinateAlone) {
  for (const MeshShape& shape : kShapes) {
    for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
      for (const std::vector<int>& group : GroupsOf(shape, static_cast<MeshGroup>(axis))) {
        ASSERT_EQ(static_cast<int>(group.size()), shape.extent(axis));
        for (size_t i = 0; i < group.size(); ++i) {
          MeshPlace place = PlaceOf(shape, group[i]);
          EXPECT_EQ(place.at(axis), static_cast<int>(i));
          (axis == Axis::kPp ? place.pp : axis == Axis::kDp ? place.dp : axis == Axis::kCp ? place.cp : place.tp) = 0;
          EXPECT_EQ(RankAt(shape, place), group[0]);
        }
      }
    }
  }
}

// A list is large, so kinds with the same groups share it.
TEST(GroupsOf, EqualListsAreOne) {
  for (const MeshShape& shape : kShapes) {
    const std::shared_ptr<const MeshGroups> all = AllGroupsOf(shape);
    for (const MeshGroup a : kAll) {
      const auto& list = (*all)[static_cast<size_t>(a)];
      EXPECT_EQ(*list, GroupsOf(shape, a)) << MeshGroupName(a);
      for (const MeshGroup b : kAll)
        EXPECT_EQ(list == (*all)[static_cast<size_t>(b)], GroupsOf(shape, a) == GroupsOf(shape, b)) << MeshGroupName(a);
    }
  }
}

TEST(GroupsOf, SaidByHeart) {
  const MeshShape shape{.pp = 2, .dp = 2, .tp = 2};
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kTp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kDp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kPp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kCp), (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kModel), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kReplicas), GroupsOf(shape, MeshGroup::kDp));
}

// Replicas are in the order dp, cp, whatever the order of the grid.
TEST(GroupsOf, ReplicasAreDpThenCp) {
  EXPECT_EQ(GroupsOf({.dp = 2, .cp = 2, .tp = 2}, MeshGroup::kReplicas), (Groups{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(GroupsOf({.dp = 2, .cp = 2, .order = {Axis::kCp, Axis::kPp, Axis::kTp, Axis::kDp}}, MeshGroup::kReplicas),
            (Groups{{0, 2, 1, 3}}));
}

TEST(GroupsOf, ExpertsAreInARowAlongDp) {
  const MeshShape shape{.dp = 4, .cp = 2, .ep = 2};
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kEp), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(GroupsOf(shape, MeshGroup::kExpertReplicas), (Groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(GroupsOf({.dp = 4}, MeshGroup::kExpertReplicas), GroupsOf({.dp = 4}, MeshGroup::kReplicas));
}

TEST(Names, OfAxesAndGroups) {
  EXPECT_EQ(AxisName(Axis::kPp), "pp");
  EXPECT_EQ(AxisName(Axis::kEp), "ep");
  EXPECT_EQ(MeshGroupName(MeshGroup::kTp), AxisName(Axis::kTp));
  EXPECT_EQ(MeshGroupName(MeshGroup::kReplicas), "replicas");
  EXPECT_EQ(MeshGroupName(MeshGroup::kModel), "model");
}

}  // namespace mesh_test
}  // namespace twofold
