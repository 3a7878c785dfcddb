// The bucket algorithm uses all links of a torus and of a HammingMesh at once.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/collectives/schedule.h"
#include "sim/latency.h"
#include "sim/places.h"
#include "sim/sharing/fluid.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/torus.h"

namespace twofold::sim {
namespace bucket_test {

constexpr double kBandwidth = 1e9, kCable = 1e-6, kBytes = 4096e3;

std::vector<int> Endpoints(const Topology& t) {
  std::vector<int> all(static_cast<size_t>(t.endpoints()));
  for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int>(e);
  return all;
}

double Seconds(const Topology& topology, const std::vector<int>& endpoints, Communication::Kind kind) {
  const Places places = PlacesOf(topology, endpoints);
  const auto schedule = BucketSchedule({kind, places.ranks(), kBytes, 0, {}}, places);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  double seconds = 0;
  for (const Phase& phase : schedule->phases) {
    Fluid fluid(topology);
    std::vector<double> latencies;
    for (const Flow& f : phase.flows) {
      const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)]};
      std::vector<int> route;
      topology.Route(pair, topology.DefaultRoute(pair), route);
      fluid.Add(route, f.bytes);
      latencies.push_back(topology.Latency(pair).value());
    }
    const std::vector<double>& ends = fluid.Solve();
    seconds += PhaseLatency(phase, latencies, 0) + *std::max_element(ends.begin(), ends.end());
  }
  return seconds;
}

TorusOptions Cube(std::vector<int> dims) {
  return {.dims = std::move(dims),
          .wiring = {.bandwidth = BytesPerSecond(kBandwidth), .cable = twofold::Seconds(kCable)}};
}

TEST(BucketTest, UsesEveryLinkOfATorus) {
  for (const std::vector<int>& dims : {std::vector<int>{4, 4}, {5, 5}, {4, 4, 4}, {3, 3, 3}, {8}}) {
    const auto torus = MakeTorus(Cube(dims));
    const double d = static_cast<double>(dims.size()), k = dims[0], n = std::pow(k, d);
    const double half = d * (k - 1) * kCable + (n - 1) / n * kBytes / kBandwidth / (2 * d);
    EXPECT_NEAR(Seconds(*torus, Endpoints(*torus), Communication::kAllReduce), 2 * half, 1e-9 * half);
    EXPECT_NEAR(Seconds(*torus, Endpoints(*torus), Communication::kAllGather), half, 1e-9 * half);
    EXPECT_NEAR(Seconds(*torus, Endpoints(*torus), Communication::kReduceScatter), half, 1e-9 * half);
  }
}

TEST(BucketTest, FollowsTheGridWhereverRanksSit) {
  const auto torus = MakeTorus(Cube({4, 4}));
  std::vector<int> shuffled;
  for (int e = 0; e < 16; ++e) shuffled.push_back(e * 7 % 16);
  EXPECT_EQ(Seconds(*torus, shuffled, Communication::kAllReduce),
            Seconds(*torus, Endpoints(*torus), Communication::kAllReduce));
}

// All four links of an accelerator carry a quarter; a hop between boards is two cables long.
TEST(BucketTest, TakesAHammingMeshForATorus) {
  const auto mesh =
      MakeHammingMesh({.a = 2,
                       .b = 2,
                       .x = 4,
                       .y = 4,
                       .wiring = {.bandwidth = BytesPerSecond(kBandwidth), .cable = twofold::Seconds(kCable)}});
  const double half = 2 * 7 * 2 * kCable + 63.0 / 64 * kBytes / kBandwidth / 4;
  EXPECT_NEAR(Seconds(*mesh, Endpoints(*mesh), Communication::kAllReduce), 2 * half, 1e-9 * half);
}

TEST(BucketTest, NeedsAWholeGridOfClosedLines) {
  const auto torus = MakeTorus(Cube({4, 4}));
  EXPECT_TRUE(PlacesOf(*torus, std::vector<int>{0, 1, 2, 3}).grid.empty());
  TorusOptions open = Cube({4, 4});
  open.wrap = false;
  const auto mesh = MakeTorus(open);
  EXPECT_TRUE(PlacesOf(*mesh, Endpoints(*mesh)).grid.empty());
  EXPECT_FALSE(BucketSchedule({Communication::kAllReduce, 16, kBytes, 0, {}}, PlacesOf(*mesh, Endpoints(*mesh))).ok());
  EXPECT_FALSE(BucketSchedule({Communication::kAllToAll, 16, kBytes, 0, {}}, PlacesOf(*torus, Endpoints(*torus))).ok());
}

// Which of them is soonest done, a network says (auto_test.cc).
TEST(BucketTest, IsAmongWhatAutoMayTakeOnAGrid) {
  const auto torus = MakeTorus(Cube({4, 4}));
  const Places places = PlacesOf(*torus, Endpoints(*torus));
  std::vector<std::string> names;
  for (const Schedule& s : AutoSchedules({Communication::kAllReduce, 16, kBytes, 0, {}}, places))
    names.push_back(s.algorithm);
  EXPECT_THAT(names, testing::Contains("bucket"));
  EXPECT_EQ(ChooseSchedule({Communication::kAllToAll, 16, kBytes, 0, {}}, "auto", places)->algorithm, "direct");
}

}  // namespace bucket_test
}  // namespace twofold::sim
