#include "topologies/placement.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/lanes.h"

namespace twofold {
namespace placement_test {

using testing::ElementsAre;
using testing::HasSubstr;

// Six nodes of two devices in groups of 3, 2 and 1 nodes.
class SixNodes : public Lanes {
 public:
  SixNodes() : Lanes(6, 1) {}
  int nodes() const override { return 6; }
  int NodeOf(int endpoint) const override { return endpoint / 2; }
  int GroupOf(int endpoint) const override { return endpoint / 2 < 3 ? 0 : endpoint / 2 < 5 ? 1 : 2; }
};

std::vector<int> Place(int ranks, const PlacementOptions& options) {
  const auto endpoints = PlaceRanks(SixNodes(), ranks, options);
  EXPECT_TRUE(endpoints.ok()) << endpoints.status();
  return *endpoints;
}
std::string Error(int ranks, const PlacementOptions& options) {
  return std::string(PlaceRanks(SixNodes(), ranks, options).status().message());
}

TEST(PlacementTest, LinearFillsNodes) { EXPECT_THAT(Place(5, {}), ElementsAre(0, 1, 2, 3, 4)); }

TEST(PlacementTest, ByGroupTakesGroupsInTurn) {
  // Nodes 0, 3, 5 (one of each group), 1, 4, 2.
  EXPECT_THAT(Place(12, {.policy = PlacementOptions::kByGroup}), ElementsAre(0, 1, 6, 7, 10, 11, 2, 3, 8, 9, 4, 5));
}

TEST(PlacementTest, HostsAreTakenAsListed) {
  EXPECT_THAT(Place(3, {.policy = PlacementOptions::kHosts, .hosts = {4, 0}}), ElementsAre(8, 9, 0));
  EXPECT_EQ(Error(2, {.policy = PlacementOptions::kHosts, .hosts = {4, 6}}),
            "fabric.simulated.placement.hosts[1]: 6: there is no such node; use 0 to 5");
  EXPECT_THAT(Error(2, {.policy = PlacementOptions::kHosts, .hosts = {4, 4}}), HasSubstr("hosts[1]: 4: named twice"));
  EXPECT_EQ(
      Error(5, {.policy = PlacementOptions::kHosts, .hosts = {4, 0}}),
      "fabric.simulated.placement: 5 ranks do not fit on 2 nodes with 4 devices; name more nodes, or use fewer ranks");
}

TEST(PlacementTest, NodesTakeOnlySoManyRanks) {
  EXPECT_THAT(Place(4, {.ranks_per_node = 1}), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(Place(4, {.ranks_per_node = 7}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Error(7, {.ranks_per_node = 1}), HasSubstr("7 ranks do not fit on 6 nodes with 6 devices"));
}

TEST(PlacementTest, RandomIsTheSeeds) {
  auto shuffled = [](uint64_t seed) { return Place(12, {.policy = PlacementOptions::kRandom, .seed = seed}); };
  EXPECT_EQ(shuffled(1), shuffled(1));
  EXPECT_NE(shuffled(1), shuffled(2));
  for (uint64_t seed = 1; seed < 20; ++seed) {
    std::vector<int> order = shuffled(seed);
    for (size_t i = 0; i < 12; i += 2) EXPECT_EQ(order[i] + 1, order[i + 1]);  // nodes stay whole
    std::sort(order.begin(), order.end());
    for (int e = 0; e < 12; ++e) EXPECT_EQ(order[static_cast<size_t>(e)], e);
  }
}

// Every node comes first about as often.
TEST(PlacementTest, RandomIsEven) {
  std::vector<int> first(6);
  for (uint64_t seed = 0; seed < 6000; ++seed)
    ++first[static_cast<size_t>(Place(1, {.policy = PlacementOptions::kRandom, .seed = seed})[0] / 2)];
  for (int count : first) EXPECT_NEAR(count, 1000, 120);  // 4 standard deviations
}

}  // namespace placement_test
}  // namespace twofold
