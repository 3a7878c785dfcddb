// Nodes: what each builder wires, the routes in it, and clusters of them.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/routes.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/networks/star.h"
#include "topologies/nodes/cube_mesh.h"
#include "topologies/nodes/full_mesh.h"
#include "topologies/nodes/nvlink_pairs.h"
#include "topologies/nodes/nvswitch.h"
#include "topologies/nodes/pcie_tree.h"
#include "topologies/nodes/single.h"
#include "topologies/nodes/wired.h"

namespace twofold {
namespace nodes_test {

using testing::ElementsAre;

constexpr NodeNics kNics{.count = 8, .bandwidth = BytesPerSecond(25e9), .latency = Seconds(0.3e-6)};

NodeNics Nics(int count) {
  NodeNics nics = kNics;
  nics.count = count;
  return nics;
}

// Cables of a medium at a vertex.
int Cables(const NodeType& node, int vertex, Medium medium) {
  return static_cast<int>(std::count_if(node.graph.links.begin(), node.graph.links.end(),
                                        [&](const Link& l) { return l.from == vertex && l.medium == medium; }));
}

std::vector<std::string> Names(const Topology& t, Pair pair, int64_t number = 0) {
  std::vector<std::string> names;
  for (int l : RouteOf(t, pair, number)) names.push_back(t.links()[static_cast<size_t>(l)].name);
  return names;
}

// ---- Routes of graphs ----
TEST(GraphTest, ShortestRoutesTheWidestFirst) {
  Graph g;
  const int a = g.AddVertex({Vertex::kDevice, "a"}), b = g.AddVertex({Vertex::kDevice, "b"});
  const int narrow = g.AddVertex({Vertex::kSwitch, "narrow"}), wide = g.AddVertex({Vertex::kSwitch, "wide"});
  g.AddCable(a, narrow, BytesPerSecond(1), Seconds(0), Medium::kPcie);
  g.AddCable(narrow, b, BytesPerSecond(9), Seconds(0), Medium::kPcie);
  g.AddCable(a, wide, BytesPerSecond(2), Seconds(5), Medium::kPcie);
  g.AddCable(wide, b, BytesPerSecond(3), Seconds(5), Medium::kPcie);
  const auto t = MakeGraphTopology("two ways", g, {b, a});  // any order: endpoint 0 is b
  EXPECT_EQ(t->vertices()[0].name, "b");
  EXPECT_EQ(t->MinimalRoutes({1, 0}), 2);
  EXPECT_THAT(Names(*t, {1, 0}, 0), ElementsAre("a>wide", "wide>b"));
  EXPECT_THAT(Names(*t, {1, 0}, 1), ElementsAre("a>narrow", "narrow>b"));
  EXPECT_EQ(t->Latency({1, 0}), Seconds(10));
  EXPECT_EQ(t->bandwidth(), BytesPerSecond(2));
  EXPECT_EQ(t->nodes(), 2);
  ExpectRoutesConnect(*t);
}

TEST(GraphTest, RoutesDoNotPassThroughDevices) {
  Graph g;
  const int a = g.AddVertex({Vertex::kDevice, "a"}), b = g.AddVertex({Vertex::kDevice, "b"}),
            c = g.AddVertex({Vertex::kDevice, "c"});
  const int host = g.AddVertex({Vertex::kHost, "host"}), root = g.AddVertex({Vertex::kSwitch, "root"});
  g.AddCable(a, b, BytesPerSecond(9), Seconds(0), Medium::kNvlink);
  g.AddCable(b, c, BytesPerSecond(9), Seconds(0), Medium::kNvlink);
  for (int v : {a, b, root}) g.AddCable(v, host, BytesPerSecond(1), Seconds(0), Medium::kPcie);
  g.AddCable(root, c, BytesPerSecond(1), Seconds(0), Medium::kPcie);
  const auto t = MakeGraphTopology("chain", g, {a, b, c});
  EXPECT_THAT(Names(*t, {0, 2}),
              ElementsAre("a>host", "host>root", "root>c"));  // not over b, though it is shorter and wider
}

TEST(GraphTest, KeepsTheWidestSixteenOfManyRoutes) {
  Graph g;
  const int from = g.AddVertex({Vertex::kDevice, "from"});
  std::vector<int> last = {from};
  for (int stage = 0; stage < 12; ++stage) {  // 3^12 shortest routes
    std::vector<int> next;
    for (int i = 0; i < 3; ++i) {
      next.push_back(g.AddVertex({Vertex::kSwitch, "s" + std::to_string(stage) + "." + std::to_string(i)}));
      for (int v : last) g.AddCable(v, next.back(), BytesPerSecond(1 + i), Seconds(0), Medium::kNetwork);
    }
    last = next;
  }
  const int to = g.AddVertex({Vertex::kDevice, "to"});
  for (int v : last) g.AddCable(v, to, BytesPerSecond(9), Seconds(0), Medium::kNetwork);
  const auto t = MakeGraphTopology("stages", g, {from, to});
  EXPECT_EQ(t->MinimalRoutes({0, 1}), 16);
  std::set<std::vector<int>> different;
  double width = 3;
  for (int n = 0; n < 16; ++n) {
    const std::vector<int> route = RouteOf(*t, {0, 1}, n);
    different.insert(route);
    const double least =
        t->links()[static_cast<size_t>(*std::min_element(route.begin(), route.end(),
                                                         [&](int x, int y) {
                                                           return t->links()[static_cast<size_t>(x)].bandwidth <
                                                                  t->links()[static_cast<size_t>(y)].bandwidth;
                                                         }))]
            .bandwidth.value();
    EXPECT_LE(least, width) << n;
    width = least;
    if (n == 0) {
      EXPECT_EQ(least, 3);  // all on the widest switches
    }
  }
  EXPECT_EQ(different.size(), 16u);
}

// ---- Builders ----
TEST(NvSwitchNodeTest, OneBundleADeviceAndNicsOfTheirOwn) {
  for (int devices : {2, 8, 16, 72}) {
    const NodeType node = MakeNvSwitchNode(
        {.devices = devices, .bandwidth = BytesPerSecond(300e9), .latency = Seconds(1e-6), .nics = Nics(devices)});
    EXPECT_EQ(node.graph.Of(Vertex::kSwitch).size(), 1u);
    for (int d : node.devices) {
      EXPECT_EQ(Cables(node, d, Medium::kNvlink), 1);
      EXPECT_EQ(Cables(node, d, Medium::kPcie), 1);
    }
    const auto t = MakeClusterTopology(node, 1, nullptr);
    EXPECT_EQ(t->endpoints(), devices);
    EXPECT_EQ(t->nodes(), 1);
    EXPECT_TRUE(t->symmetric());
    EXPECT_EQ(t->alpha(), Seconds(1e-6));
    EXPECT_EQ(t->bandwidth(), BytesPerSecond(300e9));
    EXPECT_EQ(RouteOf(*t, {0, devices - 1}).size(), 2u);
    ExpectRoutesConnect(*t);
    ExpectBackAsThere(*t);
  }
}

TEST(NvSwitchNodeTest, DevicesShareNicsEvenly) {
  const NodeType dgx2 = MakeNvSwitchNode({.devices = 16, .nics = Nics(8)});
  EXPECT_THAT(dgx2.nic_of, ElementsAre(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7));
  for (int nic : dgx2.nics) EXPECT_EQ(Cables(dgx2, nic, Medium::kPcie), 2);
  const NodeType many = MakeNvSwitchNode({.devices = 2, .nics = Nics(8)});
  EXPECT_THAT(many.nic_of, ElementsAre(0, 4));
  for (int nic : many.nics) EXPECT_EQ(Cables(many, nic, Medium::kPcie), 1);
}

TEST(CubeMeshTest, SixLinksADeviceToThePublishedNeighbours) {
  const NodeType node = MakeCubeMeshNode({.link_bandwidth = BytesPerSecond(25e9), .nics = Nics(4)});
  // `nvidia-smi topo -m` of a p3.16xlarge: links between devices.
  const int published[8][8] = {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
                               {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                               {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  int wired[8][8] = {};
  for (const Link& link : node.graph.links) {
    if (link.medium == Medium::kNvlink)
      wired[link.from][link.to] += static_cast<int>(link.bandwidth / BytesPerSecond(25e9));
  }
  for (int a = 0; a < 8; ++a) {
    int links = 0;
    for (int b = 0; b < 8; ++b) {
      EXPECT_EQ(wired[a][b], published[a][b]) << a << " to " << b;
      links += wired[a][b];
    }
    EXPECT_EQ(links, 6) << a;
  }
  const auto t = MakeClusterTopology(node, 1, nullptr);
  EXPECT_FALSE(t->symmetric());
  EXPECT_THAT(Names(*t, {0, 3}), ElementsAre("gpu0>gpu3"));
  EXPECT_THAT(Names(*t, {0, 5}),
              ElementsAre("gpu0>plx0", "plx0>socket0", "socket0>socket1", "socket1>plx2", "plx2>gpu5"));
  ExpectRoutesConnect(*t);
  ExpectBackAsThere(*t);
}

TEST(NvlinkPairsTest, PairsOverTheBridgeOthersOverTheHost) {
  const NodeType node = MakeNvlinkPairsNode(
      {.devices = 4, .bandwidth = BytesPerSecond(56e9), .pcie_bandwidth = BytesPerSecond(12e9), .nics = Nics(2)});
  const auto t = MakeClusterTopology(node, 1, nullptr);
  EXPECT_THAT(Names(*t, {0, 1}), ElementsAre("gpu0>gpu1"));
  EXPECT_THAT(Names(*t, {1, 2}), ElementsAre("gpu1>host", "host>gpu2"));
  EXPECT_FALSE(t->symmetric());
  EXPECT_EQ(Cables(node, node.graph.Of(Vertex::kHost)[0], Medium::kPcie), 4 + 2);
  ExpectRoutesConnect(*t);
  ExpectBackAsThere(*t);
}

TEST(PcieTreeTest, SwitchesBelowSocketsNicsBelowSwitches) {
  const NodeType node =
      MakePcieTreeNode({.devices = 8, .devices_per_switch = 2, .switches_per_socket = 2, .nics = Nics(4)});
  EXPECT_EQ(node.graph.Of(Vertex::kSwitch).size(), 4u);
  EXPECT_EQ(node.graph.Of(Vertex::kHost).size(), 2u);
  EXPECT_EQ(node.graph.links.size(), 2u * (8 + 4 + 1 + 4));
  const auto t = MakeClusterTopology(node, 1, nullptr);
  EXPECT_EQ(RouteOf(*t, {0, 1}).size(), 2u);
  EXPECT_EQ(RouteOf(*t, {0, 2}).size(), 4u);
  EXPECT_EQ(RouteOf(*t, {0, 7}).size(), 5u);
  ExpectRoutesConnect(*t);
  ExpectBackAsThere(*t);
  EXPECT_EQ(MakePcieTreeNode({.devices = 5, .devices_per_switch = 2, .switches_per_socket = 2, .nics = {}})
                .graph.Of(Vertex::kSwitch)
                .size(),
            3u);
}

TEST(FullMeshNodeTest, ABundleBetweenEveryTwo) {
  for (int devices : {1, 2, 4, 8}) {
    const NodeType node =
        MakeFullMeshNode({.devices = devices, .bandwidth = BytesPerSecond(100e9), .nics = Nics(devices)});
    for (int d : node.devices) EXPECT_EQ(Cables(node, d, Medium::kNvlink), devices - 1);
    const auto t = MakeClusterTopology(node, 1, nullptr);
    EXPECT_TRUE(t->symmetric());
    for (int b = 1; b < devices; ++b) EXPECT_EQ(RouteOf(*t, {0, b}).size(), 1u);
    ExpectRoutesConnect(*t);
    ExpectBackAsThere(*t);
  }
}

WiredNodeOptions Summit() {
  WiredNodeOptions o{.devices = 6, .cables = {}, .devices_per_socket = 3, .nics = Nics(2), .nic_at = {}};
  for (int base : {0, 3}) {
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)})
      o.cables.push_back({base + a, base + b, BytesPerSecond(50e9)});
  }
  return o;
}

TEST(WiredNodeTest, ListedCablesAndSockets) {
  const NodeType node = MakeWiredNode(Summit());
  const auto t = MakeClusterTopology(node, 1, nullptr);
  EXPECT_THAT(Names(*t, {0, 2}), ElementsAre("gpu0>gpu2"));
  EXPECT_THAT(Names(*t, {1, 4}), ElementsAre("gpu1>socket0", "socket0>socket1", "socket1>gpu4"));
  EXPECT_THAT(node.nic_of, ElementsAre(0, 0, 0, 1, 1, 1));
  ExpectRoutesConnect(*t);
  ExpectBackAsThere(*t);
}

TEST(WiredNodeTest, UnequalCablesAreNotSymmetric) {
  WiredNodeOptions o{.devices = 3, .cables = {}, .devices_per_socket = 3, .nics = {}, .nic_at = {}};
  for (const auto& [a, b] : {std::pair(0, 1), std::pair(0, 2), std::pair(1, 2)})
    o.cables.push_back({a, b, BytesPerSecond(50e9)});
  EXPECT_TRUE(MakeClusterTopology(MakeWiredNode(o), 1, nullptr)->symmetric());
  o.cables[1].bandwidth = BytesPerSecond(100e9);
  EXPECT_FALSE(MakeClusterTopology(MakeWiredNode(o), 1, nullptr)->symmetric());
}

// As on MI250X: NICs on the odd devices, each with a wide cable to the even one beside it.
TEST(WiredNodeTest, NicsOnDevicesServeTheDevicesBeside) {
  WiredNodeOptions o{.devices = 4, .cables = {}, .devices_per_socket = 4, .nics = Nics(2), .nic_at = {3, 1}};
  o.cables = {{0, 1, BytesPerSecond(200e9)}, {2, 3, BytesPerSecond(200e9)}, {0, 3, BytesPerSecond(50e9)}};
  const NodeType node = MakeWiredNode(o);
  EXPECT_THAT(node.nic_of, ElementsAre(1, 1, 0, 0));
  const auto t = MakeClusterTopology(node, 2, MakeStar({.hosts = 4}));
  EXPECT_THAT(Names(*t, {0, 6}),
              ElementsAre("n0.gpu0>gpu1", "n0.gpu1>nic1", "h1.up", "h2.down", "n1.nic0>gpu3", "n1.gpu3>gpu2"));
  ExpectRoutesConnect(*t);
}

// ---- What cannot be a node ----
TEST(NodeTypeTest, WhatIsNotJoinedIsNamed) {
  NodeType node;
  EXPECT_EQ(CheckNodeType(node).message(), "the node has no device");
  node = MakeNvSwitchNode({.devices = 3, .nics = Nics(3)});
  EXPECT_TRUE(CheckNodeType(node).ok());
  NodeType cut = node;
  std::erase_if(cut.graph.links, [](const Link& l) { return l.name == "nvswitch>gpu2"; });
  EXPECT_EQ(CheckNodeType(cut).message(),
            "no route from gpu0 to gpu2 avoids other devices (devices do not forward messages)");
  cut = node;
  std::erase_if(cut.graph.links, [](const Link& l) { return l.name == "nic1>gpu1"; });
  EXPECT_EQ(CheckNodeType(cut).message(), "no device has a route to nic1 and back");
}

// ---- Clusters ----
TEST(ClusterTopologyTest, BetweenNodesThroughNicsAndNetwork) {
  const auto t = MakeClusterTopology(
      MakeNvSwitchNode({.devices = 4,
                        .bandwidth = BytesPerSecond(300e9),
                        .latency = Seconds(1),
                        .multicast = true,
                        .nics = {.count = 4, .bandwidth = BytesPerSecond(25e9), .latency = Seconds(0.25)}}),
      3, MakeStar({.hosts = 12, .bandwidth = BytesPerSecond(24e9), .latency = Seconds(2)}), true);
  EXPECT_EQ(t->endpoints(), 12);
  EXPECT_EQ(t->nodes(), 3);
  EXPECT_EQ(t->rails(), 4);
  EXPECT_EQ(t->NodeOf(7), 1);
  EXPECT_EQ(t->RailOf(7), 3);
  EXPECT_TRUE(t->multicast_in_node());
  EXPECT_TRUE(t->reduction_in_network());
  EXPECT_FALSE(t->symmetric());
  EXPECT_EQ(t->links().size(), 3u * (8 + 8) + 24);
  EXPECT_EQ(t->vertices().size(), 3u * 9 + 1);
  EXPECT_THAT(Names(*t, {4, 6}), ElementsAre("n1.gpu0>nvswitch", "n1.nvswitch>gpu2"));
  EXPECT_THAT(Names(*t, {1, 11}), ElementsAre("n0.gpu1>nic1", "h1.up", "h11.down", "n2.nic3>gpu3"));
  EXPECT_EQ(t->Latency({1, 11}), Seconds(2.5));
  EXPECT_EQ(t->alpha(), Seconds(2.5));
  EXPECT_EQ(t->bandwidth(), BytesPerSecond(24e9));
  ExpectRoutesConnect(*t);
}

TEST(ClusterTopologyTest, RailsAreReachedOverNvlink) {
  const auto t = MakeClusterTopology(MakeNvSwitchNode({.devices = 4, .nics = Nics(4)}), 2, MakeStar({.hosts = 8}));
  EXPECT_THAT(Names(*t, {1, 7, 2}), ElementsAre("n0.gpu1>nvswitch", "n0.nvswitch>gpu2", "n0.gpu2>nic2", "h2.up",
                                                "h6.down", "n1.nic2>gpu2", "n1.gpu2>nvswitch", "n1.nvswitch>gpu3"));
  Seconds sum{0};
  for (int l : RouteOf(*t, {1, 7, 2})) sum += t->links()[static_cast<size_t>(l)].latency;
  EXPECT_NEAR(t->Latency({1, 7, 2}).value(), sum.value(), 1e-15);
  EXPECT_THAT(Names(*t, {1, 2, 3}), ElementsAre("n0.gpu1>nvswitch", "n0.nvswitch>gpu2"));  // no rail within a node
}

// Without NVLink the way to another NIC leads through the PCIe tree alone.
TEST(ClusterTopologyTest, RailsAreReachedOverPcieWhereItIsNoNarrower) {
  const auto t = MakeClusterTopology(MakePcieTreeNode({.devices = 4, .nics = Nics(2)}), 2, MakeStar({.hosts = 4}));
  EXPECT_THAT(Names(*t, {0, 4, 1}),
              ElementsAre("n0.gpu0>plx0", "n0.plx0>socket0", "n0.socket0>plx1", "n0.plx1>nic1", "h1.up", "h3.down",
                          "n1.nic1>plx1", "n1.plx1>socket0", "n1.socket0>plx0", "n1.plx0>gpu0"));
}

TEST(ClusterTopologyTest, DevicesThatArePorts) {
  const auto t = MakeClusterTopology(MakeSingleNode({}), 5, MakeStar({.hosts = 5, .latency = Seconds(3)}));
  EXPECT_TRUE(t->symmetric());
  EXPECT_EQ(t->rails(), 1);
  EXPECT_EQ(t->RailOf(3), 0);
  EXPECT_THAT(Names(*t, {1, 4}), ElementsAre("h1.up", "h4.down"));
  EXPECT_EQ(t->Latency({1, 4}), Seconds(3));
  ExpectRoutesConnect(*t);
}

TEST(ClusterTopologyTest, NamesAreUnique) {
  const auto t = MakeClusterTopology(MakeCubeMeshNode({.nics = Nics(4)}), 3, MakeStar({.hosts = 12}));
  std::set<std::string> vertices, links;
  for (const Vertex& v : t->vertices()) EXPECT_TRUE(vertices.insert(v.name).second) << v.name;
  for (const Link& l : t->links()) EXPECT_TRUE(links.insert(l.name).second) << l.name;
}

}  // namespace nodes_test
}  // namespace twofold
