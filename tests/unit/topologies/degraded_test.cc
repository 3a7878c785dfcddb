// What goes wrong with links: names, both ways, routes around, others' traffic, jitter.
#include "topologies/degraded.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/lanes.h"
#include "topologies/graph/no_route.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace degraded_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Pair kRight{0, 2}, kLeft{3, 1};  // of two hosts a side

Degraded Make(const Degradation& degradation, int lanes = 3) {
  auto degraded = MakeDegraded(std::make_unique<Lanes>(2, lanes), degradation);
  EXPECT_TRUE(degraded.ok()) << degraded.status();
  return *std::move(degraded);
}

std::string Error(const Degradation& degradation, std::unique_ptr<Topology> topology = std::make_unique<Lanes>(2, 3)) {
  return std::string(MakeDegraded(std::move(topology), degradation).status().message());
}

const Link& Named(const Topology& topology, std::string_view name) {
  for (const Link& link : topology.links()) {
    if (link.name == name) return link;
  }
  ADD_FAILURE() << name;
  return topology.links()[0];
}

// The names of a route's links between the hosts' own.
std::vector<std::string> Way(const Topology& topology, Pair pair, int64_t number) {
  std::vector<int> route;
  topology.Route(pair, number, route);
  std::vector<std::string> names;
  for (size_t i = 1; i + 1 < route.size(); ++i) names.push_back(topology.links()[static_cast<size_t>(route[i])].name);
  return names;
}

TEST(DegradedTest, ACableIsSlowerAndFartherBothWays) {
  const Degraded d = Make({.faults = {{.link = "lane1", .bandwidth = 0.25, .latency = Seconds(2)}}});
  for (const char* name : {"lane1", "lane1.back"}) {
    EXPECT_EQ(Named(*d.topology, name).bandwidth, BytesPerSecond(0.25e9));
    EXPECT_EQ(Named(*d.topology, name).latency, Seconds(3));
  }
  EXPECT_EQ(Named(*d.topology, "lane0").bandwidth, BytesPerSecond(1e9));
  EXPECT_EQ(d.topology->MinimalRoutes(kRight), 3);
  EXPECT_EQ(d.topology->Latency({0, 4 - 1}), Seconds(3));  // endpoint 3 is by lane 0
  EXPECT_EQ(d.topology->Latency({3, 1}), Seconds(5));      // endpoint 1 by lane 1
  EXPECT_FALSE(d.topology->symmetric());
  EXPECT_THAT(
      d.notes,
      ElementsAre("link lane1 (and its reverse, lane1.back) at 0.25 of the bandwidth, with 2e+06 µs more latency"));
}

TEST(DegradedTest, ANameOfTheOtherWayIsTheSameCable) {
  const Degraded d = Make({.faults = {{.link = "lane1.back", .bandwidth = 0.5}}});
  EXPECT_EQ(Named(*d.topology, "lane1").bandwidth, BytesPerSecond(0.5e9));
  EXPECT_EQ(Named(*d.topology, "lane1.back").bandwidth, BytesPerSecond(0.5e9));
}

TEST(DegradedTest, AStarStandsForAllThatBeginSo) {
  const Degraded d = Make({.faults = {{.link = "lane*", .bandwidth = 0.5}}});
  for (const char* name : {"lane0", "lane1", "lane2", "lane2.back"})
    EXPECT_EQ(Named(*d.topology, name).bandwidth, BytesPerSecond(0.5e9));
  EXPECT_EQ(Named(*d.topology, "l0").bandwidth, BytesPerSecond(1e9));
  EXPECT_THAT(d.notes, ElementsAre("6 links lane* at 0.5 of the bandwidth"));
}

TEST(DegradedTest, RoutesOverFailedLinksAreLeftOut) {
  const Degraded d = Make({.faults = {{.link = "lane1", .failed = true}}});
  for (const Pair pair : {kRight, kLeft}) {
    const std::string back = pair.from < 2 ? "" : ".back";
    ASSERT_EQ(d.topology->MinimalRoutes(pair), 2);
    EXPECT_THAT(Way(*d.topology, pair, 0), ElementsAre("lane0" + back));
    EXPECT_THAT(Way(*d.topology, pair, 1), ElementsAre("lane2" + back));
    ASSERT_EQ(d.topology->Detours(pair), 1);
    EXPECT_EQ(Way(*d.topology, pair, 2).size(), 2u);
  }
  // 0 -> 2 went by lane 2 and still does; 3 -> 1 went by lane 1 and takes the one at place 1 of those that are left.
  EXPECT_THAT(Way(*d.topology, kRight, d.topology->DefaultRoute(kRight)), ElementsAre("lane2"));
  EXPECT_THAT(Way(*d.topology, kLeft, d.topology->DefaultRoute(kLeft)), ElementsAre("lane2.back"));
}

TEST(DegradedTest, DetoursServeWhereNoMinimalRouteIsLeft) {
  const Degraded d = Make({.faults = {{.link = "lane*", .failed = true}}});
  EXPECT_EQ(d.topology->MinimalRoutes(kRight), 1);
  EXPECT_EQ(d.topology->Detours(kRight), 0);
  EXPECT_THAT(Way(*d.topology, kRight, d.topology->DefaultRoute(kRight)), ElementsAre("around0", "around1"));
  EXPECT_TRUE(CheckRoutes(*d.topology, std::vector{0, 2}).ok());
}

TEST(DegradedTest, APairWithoutARouteIsNamed) {
  const Degraded d = Make({.faults = {{.link = "lane*", .failed = true}, {.link = "around1", .failed = true}}});
  std::vector<int> route;
  EXPECT_THROW(d.topology->Route(kRight, d.topology->DefaultRoute(kRight), route), NoRoute);
  const absl::Status status = CheckRoutes(*d.topology, std::vector{0, 3});
  EXPECT_EQ(status.message(),
            "fabric.simulated.network.faults: every route from l0 to r1 (endpoints 0 and 3) crosses a "
            "failed link; fail fewer links, or place the ranks elsewhere");
}

TEST(DegradedTest, UnknownNamesAreToldNearOnes) {
  EXPECT_EQ(Error({.faults = {{.link = "l0", .bandwidth = 0.5}, {.link = "lame2", .failed = true}}}),
            "fabric.simulated.network.faults[1].link: \"lame2\": this lanes has no such link; did you mean lane2, "
            "lane0 or lane1? "
            "(a trailing * matches all links with that prefix)");
}

TEST(DegradedTest, OthersTakeAShareOfNetworkLinks) {
  const Degraded d = Make({.background = 0.3});
  for (const Link& link : d.topology->links()) EXPECT_DOUBLE_EQ(link.bandwidth.value(), 0.7e9);
  auto star = MakeDegraded(MakeStar({.hosts = 4}), {.background = 0.3});
  EXPECT_TRUE(star->topology->symmetric());  // all alike
  EXPECT_DOUBLE_EQ(star->topology->bandwidth().value(), 0.7 * 25e9);
  EXPECT_THAT(
      Error({.background = 0.3}, std::make_unique<Lanes>(1, 1, BytesPerSecond(1), BytesPerSecond(1), Medium::kNvlink)),
      HasSubstr("fabric.simulated.network.background: 0.3: a lanes has no network links; use 0"));
}

TEST(DegradedTest, JitterIsTheSeeds) {
  auto latencies = [](uint64_t seed) {
    std::vector<double> all;
    const Degraded d = Make({.jitter = 0.5, .seed = seed});
    for (const Link& link : d.topology->links()) all.push_back(link.latency.value());
    return all;
  };
  const std::vector<double> first = latencies(1);
  EXPECT_EQ(first, latencies(1));
  EXPECT_NE(first, latencies(2));
  EXPECT_EQ(std::set<double>(first.begin(), first.end()).size(), first.size());
  for (double latency : first) EXPECT_TRUE(latency >= 1 && latency < 1 + 0.5 * 6) << latency;
}

TEST(DegradedTest, JitterIsHalfANormalsDistribution) {
  const Degraded d = *MakeDegraded(MakeStar({.hosts = 20000, .latency = Seconds(2)}), {.jitter = 1});
  double sum = 0, squares = 0;
  for (const Link& link : d.topology->links())
    sum += link.latency.value() - 1, squares += (link.latency.value() - 1) * (link.latency.value() - 1);
  const double links = static_cast<double>(d.topology->links().size());
  EXPECT_NEAR(sum / links, std::sqrt(2 / M_PI), 0.01);  // of |N(0, 1)|
  EXPECT_NEAR(squares / links, 1, 0.03);
}

}  // namespace degraded_test
}  // namespace twofold
