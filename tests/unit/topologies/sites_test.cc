// Sites joined by a wide-area network: routes, shared links, latencies, nodes and groups.
#include "topologies/sites.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace sites_test {

using testing::ElementsAre;

std::vector<std::string> Way(const Topology& topology, Pair pair) {
  std::vector<int> route;
  topology.Route(pair, topology.DefaultRoute(pair), route);
  std::vector<std::string> names;
  for (const int link : route) names.push_back(topology.links()[static_cast<size_t>(link)].name);
  return names;
}

std::unique_ptr<Topology> Cluster(const std::string& name, int nodes) {
  auto cluster = FindCluster(name);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  auto topology = BuildTopology(*cluster, nodes);
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

TEST(SitesTest, TrafficBetweenSitesTakesBothSitesLinks) {
  const auto t = JoinSites(MakeStar({.hosts = 2, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(4e-6)}),
                           {.count = 3, .bandwidth = BytesPerSecond(1e8), .latency = Seconds(0.03)});
  EXPECT_EQ(t->endpoints(), 6);
  EXPECT_EQ(t->nodes(), 6);
  EXPECT_THAT(Way(*t, {2, 3}), ElementsAre("s1.h0.up", "s1.h1.down"));
  EXPECT_THAT(Way(*t, {1, 4}), ElementsAre("s0.h1.up", "s0.wan.up", "s2.wan.down", "s2.h0.down"));
  EXPECT_THAT(Way(*t, {5, 0}), ElementsAre("s2.h1.up", "s2.wan.up", "s0.wan.down", "s0.h0.down"));
  EXPECT_DOUBLE_EQ(t->Latency({2, 3}).value(), 4e-6);
  EXPECT_DOUBLE_EQ(t->Latency({1, 4}).value(), 0.03 + 4e-6);
  EXPECT_DOUBLE_EQ(t->alpha().value(), 0.03 + 4e-6);
  EXPECT_DOUBLE_EQ(t->bandwidth().value(), 1e8);
  EXPECT_FALSE(t->symmetric());
  EXPECT_THAT(t->GroupOf(1), 0);
  EXPECT_THAT(t->GroupOf(4), 2);
}

// A device leaves its site through its own NIC, or through the NIC of the rail that the library chooses.
TEST(SitesTest, DevicesLeaveThroughTheirNics) {
  const auto site = Cluster("dgx-h100", 4);
  const auto t =
      JoinSites(Cluster("dgx-h100", 4), {.count = 2, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(0.01)});
  const int to = site->endpoints() + 17;
  EXPECT_EQ(t->NodeOf(to), site->nodes() + 2);
  EXPECT_EQ(t->RailOf(to), site->RailOf(17));
  EXPECT_THAT(Way(*t, {3, to, 0}), ElementsAre("s0.n0.gpu3>nvswitch", "s0.n0.nvswitch>gpu0", "s0.n0.gpu0>nic0",
                                               "s0.p0.up", "s0.wan.up", "s1.wan.down", "s1.p16.down", "s1.n2.nic0>gpu0",
                                               "s1.n2.gpu0>nvswitch", "s1.n2.nvswitch>gpu1"));
  EXPECT_THAT(Way(*t, {3, to}),
              ElementsAre("s0.n0.gpu3>nic3", "s0.p3.up", "s0.wan.up", "s1.wan.down", "s1.p17.down", "s1.n2.nic1>gpu1"));
}

// Vertices are those of the sites: every link within a site joins vertices of that site.
TEST(SitesTest, LinksJoinVerticesOfTheirSite) {
  const auto t =
      JoinSites(Cluster("dgx-h100", 2), {.count = 2, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(0)});
  std::set<std::string> names;
  for (const Vertex& v : t->vertices()) EXPECT_TRUE(names.insert(v.name).second) << v.name;
  for (int e = 0; e < t->endpoints(); ++e) {
    const Vertex& v = t->vertices()[static_cast<size_t>(e)];
    EXPECT_EQ(v.kind, Vertex::kDevice) << v.name;
    EXPECT_EQ(v.node, t->NodeOf(e)) << v.name;
  }
  names.clear();
  for (const Link& l : t->links()) {
    EXPECT_TRUE(names.insert(l.name).second) << l.name;
    if (l.from < 0 || l.to < 0) continue;
    const auto site = [&](int v) { return t->vertices()[static_cast<size_t>(v)].name.substr(0, 3); };
    if (site(l.from) != "wan" && site(l.to) != "wan") {
      EXPECT_EQ(site(l.from), l.name.substr(0, 3)) << l.name;
      EXPECT_EQ(site(l.to), l.name.substr(0, 3)) << l.name;
    }
  }
}

TEST(SitesTest, SitesOfOneNodeAreJoinedAtTheirDevices) {
  const auto t =
      JoinSites(Cluster("dgx-h100", 1), {.count = 2, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1)});
  EXPECT_THAT(Way(*t, {3, 8}), ElementsAre("s0.wan.up", "s1.wan.down"));
}

}  // namespace sites_test
}  // namespace twofold
