// From a cluster's description to its topology, and the catalogue.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/seed.h"
#include "tests/unit/topologies/routes.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace build_test {

using testing::HasSubstr;

constexpr int64_t kAll = int64_t{1} << 62;

cluster::Cluster Load(std::string_view name) {
  absl::StatusOr<cluster::Cluster> c = FindCluster(name);
  EXPECT_TRUE(c.ok()) << c.status();
  return c.ok() ? *std::move(c) : cluster::Cluster();
}

std::unique_ptr<Topology> Build(std::string_view name, int64_t nodes = kAll) {
  const cluster::Cluster c = Load(name);
  auto t = BuildTopology(c, static_cast<int>(std::min(nodes, c.has_shared_memory_host() ? 4 : MostNodes(c))));
  EXPECT_TRUE(t.ok()) << t.status();
  return t.ok() ? *std::move(t) : nullptr;
}

TEST(CatalogueBuildTest, EveryClusterBuildsWhole) {
  for (const ClusterInfo& info : ListClusters()) {
    SCOPED_TRACE(info.name);
    const cluster::Cluster c = Load(info.name);
    const auto t = Build(info.name);
    ASSERT_NE(t, nullptr);
    if (t->endpoints() > 1) {
      EXPECT_GT(t->alpha(), Seconds(0));  // a device alone has no links
    }
    EXPECT_GT(t->bandwidth(), BytesPerSecond(1e9));
    for (const Link& link : t->links()) {
      ASSERT_GT(link.bandwidth, BytesPerSecond(0)) << link.name;
      ASSERT_GE(link.latency, Seconds(0)) << link.name;
    }
    if (c.has_shared_memory_host()) continue;  // its routes are the receiver's alone
    EXPECT_EQ(t->nodes(), MostNodes(c));
    EXPECT_EQ(t->endpoints(), MostNodes(c) * *DevicesPerNode(c));
    ExpectRoutesConnect(*t);
  }
}

// What moves traffic asks for rates and groups without names: these are those of the listed links and vertices.
TEST(CatalogueBuildTest, RatesAreThoseOfListedLinks) {
  for (const ClusterInfo& info : ListClusters()) {
    SCOPED_TRACE(info.name);
    const auto t = Build(info.name, 600);  // of fat trees of three levels more than one pod
    const size_t count = t->link_count();
    std::vector<LinkRates> rates;
    std::vector<int> groups;
    for (size_t l = 0; l < count; ++l) rates.push_back(t->RatesOf(static_cast<int>(l)));
    for (int e = 0; e < t->endpoints(); ++e) groups.push_back(t->GroupOf(e));
    ASSERT_EQ(t->links().size(), count);
    for (size_t l = 0; l < count; ++l) {
      const Link& link = t->links()[l];
      ASSERT_EQ(rates[l].bandwidth, link.bandwidth) << link.name;
      ASSERT_EQ(rates[l].latency, link.latency) << link.name;
      ASSERT_EQ(rates[l].medium, link.medium) << link.name;
    }
    for (size_t e = 0; e < groups.size(); ++e) {
      const Vertex& v = t->vertices()[e];
      ASSERT_EQ(groups[e], v.group >= 0 ? v.group : groups[e]) << v.name;
    }
  }
}

TEST(CatalogueBuildTest, EveryClusterHasOneNode) {
  for (const ClusterInfo& info : ListClusters()) {
    SCOPED_TRACE(info.name);
    const cluster::Cluster c = Load(info.name);
    if (!c.has_machines()) continue;
    const auto t = Build(info.name, 1);
    EXPECT_EQ(t->nodes(), 1);
    EXPECT_EQ(t->endpoints(), *DevicesPerNode(c));
    for (const Vertex& v : t->vertices()) EXPECT_EQ(v.node, 0) << v.name;
    ExpectRoutesConnect(*t);
    ExpectBackAsThere(*t);
  }
}

// ---- Published structure of catalogue clusters ----
TEST(CatalogueBuildTest, DgxH100HasALeafARail) {
  const auto t = Build("dgx-h100");
  EXPECT_EQ(t->endpoints(), 2048);
  EXPECT_EQ(t->rails(), 8);
  EXPECT_TRUE(t->multicast_in_node());
  EXPECT_TRUE(t->reduction_in_network());
  EXPECT_EQ(t->RailOf(8 * 5 + 3), 3);
  // Of a scalable unit's 32 nodes a rail's NICs share a leaf: device, NIC, leaf, NIC, device.
  EXPECT_EQ(RouteOf(*t, {3, 8 * 31 + 3}).size(), 4u);
  EXPECT_EQ(RouteOf(*t, {3, 8 * 32 + 3}).size(), 6u);
  EXPECT_EQ(RouteOf(*t, {3, 8 * 31 + 4}).size(), 6u);
  EXPECT_EQ(t->MinimalRoutes({3, 8 * 31 + 4}), 32);  // spines
}

TEST(CatalogueBuildTest, CabinetsOfAlpsAreGroups) {
  const auto t = Build("alps");
  EXPECT_EQ(t->endpoints(), 10752);
  EXPECT_EQ(t->GroupOf(4 * 111 + 3), 0);
  EXPECT_EQ(t->GroupOf(4 * 112), 1);
  EXPECT_EQ(t->GroupOf(4 * 2687), 23);
  EXPECT_EQ(t->vertices()[0].group, 0);
  EXPECT_EQ(t->MinimalRoutes({0, 4 * 112}), 20);  // optical cables
  EXPECT_GT(t->Detours({0, 4 * 112}), 0);
}

TEST(CatalogueBuildTest, DevicesOfFrontierHaveThePublishedLinks) {
  const auto node = BuildNode(Load("frontier").machines());
  ASSERT_TRUE(node.ok()) << node.status();
  std::vector<int> links(8);
  for (const Link& link : node->graph.links) {
    if (link.medium == Medium::kNvlink)
      links[static_cast<size_t>(link.from)] += static_cast<int>(link.bandwidth / BytesPerSecond(50e9));
  }
  // 4 to the GCD beside, 3 or 2 to other packages: the GCDs with NICs have one fewer.
  EXPECT_THAT(links, testing::ElementsAre(7, 6, 7, 6, 7, 6, 7, 6));
  EXPECT_THAT(node->nic_of, testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
}

TEST(CatalogueBuildTest, SummitTpuAndHammingMeshHaveTheirPublishedSizes) {
  EXPECT_EQ(Build("summit")->endpoints(), 27648);
  EXPECT_EQ(Build("frontier")->endpoints(), 75264);
  const auto tpu = Build("tpu-v4-pod");
  EXPECT_EQ(tpu->endpoints(), 4096);
  EXPECT_EQ(tpu->links().size(), 6u * 4096);
  EXPECT_TRUE(tpu->endpoints_forward());
  EXPECT_EQ(Build("hammingmesh-1k")->endpoints(), 1024);
  EXPECT_EQ(Build("hammingmesh-16k")->endpoints(), 16384);
  EXPECT_EQ(Build("gb200-nvl72", 1)->endpoints(), 72);
  EXPECT_EQ(Build("dgx-h100-16k")->endpoints(), 16384);
}

TEST(CatalogueBuildTest, CloudsHaveThePublishedNetworks) {
  const auto azure = Build("azure-nc24ads-a100");
  EXPECT_EQ(azure->endpoints(), 512);
  EXPECT_EQ(azure->bandwidth(), BytesPerSecond(2.5e9));  // 20,000 Mb/s
  const auto aws = Build("aws-p4d");
  EXPECT_EQ(aws->endpoints(), 4096);
  const auto node = BuildNode(Load("aws-p4d").machines());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_THAT(node->nic_of, testing::ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  double gbits = 0;  // into the network, of a node
  for (const Link& link : aws->links())
    if (link.medium == Medium::kNetwork && aws->vertices()[static_cast<size_t>(link.from)].node == 0)
      gbits += link.bandwidth.value() * 8e-9;
  EXPECT_DOUBLE_EQ(gbits, 400);
}

// ---- BuildTopology ----
class ClusterTest : public testing::Test {
 protected:
  static cluster::Cluster Parse(const std::string& text) {
    cluster::Cluster c;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("name: 'x' " + text, &c)) << text;
    return c;
  }
  static std::string Node(const std::string& node) {
    return "machines { nodes: 4 node { " + node + " } " + kNetwork + " }";
  }
  static std::string Network(const std::string& network, const std::string& nodes = "4") {
    return "machines { nodes: " + nodes + " node { single {} } network { link_gbytes_per_second: 25 " + network +
           " } }";
  }
  static constexpr char kNetwork[] =
      "network { star {} link_gbytes_per_second: 25 cable_us: 0.1 switch_us: 0.2 nic_us: 0.5 }";
};

TEST_F(ClusterTest, OneNodeHasNoNetworkOthersHaveWhatTheirStructureNeeds) {
  const std::string node =
      "nodes: 8 node { nvswitch { gbytes_per_second: 300 } devices: 2 link_us: 1 } network { link_gbytes_per_second: "
      "25 ";
  const cluster::Cluster star = Parse("machines { " + node + "star {} } }"),
                         tree = Parse("machines { " + node + "fat_tree { radix: 4 levels: 3 } } }");
  EXPECT_EQ((*BuildTopology(star, 1))->vertices().size(), 2u + 2 + 1);
  EXPECT_EQ((*BuildTopology(tree, 1))->vertices().size(), 2u + 2 + 1);
  EXPECT_EQ((*BuildTopology(star, 3))->nodes(), 3);  // a star of three is that of eight for who uses three
  EXPECT_EQ((*BuildTopology(tree, 3))->nodes(), 8);
  EXPECT_EQ(*DevicesPerNode(tree), 2);
  EXPECT_EQ(MostNodes(tree), 8);
  EXPECT_EQ((*BuildTopology(Parse("star { hosts: 9 link_gbytes_per_second: 1 latency_us: 1 }"), 4))->endpoints(), 4);
  EXPECT_EQ((*BuildTopology(Parse("shared_memory_host { latency_us: 3 }"), 4))->alpha(), Microseconds(3));
}

TEST_F(ClusterTest, NodesOutOfRangeAreRefused) {
  const cluster::Cluster c = Parse(Node("single {}"));
  for (int nodes : {0, -1, 5}) {
    const auto t = BuildTopology(c, nodes);
    ASSERT_FALSE(t.ok()) << nodes;
    EXPECT_THAT(std::string(t.status().message()),
                HasSubstr("nodes = " + std::to_string(nodes) + ": must be from 1 to 4"));
  }
}

TEST_F(ClusterTest, StarsAddUpWhatAMessagePasses) {
  const auto t = *BuildTopology(Parse(Node("single {} pcie_us: 0.25")), 2);
  EXPECT_NEAR(t->Latency({0, 1}).value(), (2 * 0.25 + 2 * 0.5 + 2 * 0.1 + 0.2) * 1e-6, 1e-15);
  EXPECT_EQ(t->bandwidth(), BytesPerSecond(25e9));  // PCIe is not given: it never limits
}

TEST_F(ClusterTest, EveryKindOfNodeBuilds) {
  for (const char* node :
       {"single {} nics: 4", "nvswitch { gbytes_per_second: 1 } devices: 3 link_us: 1",
        "cube_mesh { link_gbytes_per_second: 25 } nics: 4 link_us: 1 pcie_gbytes_per_second: 12",
        "nvlink_pairs { gbytes_per_second: 1 host_gbytes_per_second: 1 } devices: 4 link_us: 1 nics: 1",
        "full_mesh { pair_gbytes_per_second: 1 } devices: 4 link_us: 1",
        "pcie_tree { socket_gbytes_per_second: 9 } devices: 8 pcie_gbytes_per_second: 12",
        "wired { host_gbytes_per_second: 1 cable { a: 0 b: 1 gbytes_per_second: 4 } } devices: 2 link_us: 1"}) {
    SCOPED_TRACE(node);
    const cluster::Cluster c = Parse(Node(node));
    ASSERT_TRUE(CheckCluster(c).ok()) << CheckCluster(c);
    const auto t = BuildTopology(c, 4);
    ASSERT_TRUE(t.ok()) << t.status();
    ExpectRoutesConnect(**t);
  }
}

TEST_F(ClusterTest, EveryKindOfNetworkBuilds) {
  for (const char* network :
       {"star {}", "full_mesh {}", "fat_tree { radix: 4 }", "fat_tree { radix: 4 levels: 3 oversubscription: 3 }",
        "dragonfly { p: 1 a: 2 h: 1 }",
        "slingshot { groups: 2 switches_per_group: 2 ports_per_switch: 1 links_between_groups: 2 }",
        "torus { dims: 2 dims: 2 }", "hamming_mesh { a: 2 b: 2 x: 1 y: 1 }"}) {
    SCOPED_TRACE(network);
    const cluster::Cluster c = Parse(Network(network));
    ASSERT_TRUE(CheckCluster(c).ok()) << CheckCluster(c);
    const auto t = BuildTopology(c, 4);
    ASSERT_TRUE(t.ok()) << t.status();
    ExpectRoutesConnect(**t);
  }
}

// ---- What is refused: field, value and what would be right ----
TEST_F(ClusterTest, BadNodesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"devices: 8", "machines.node.kind: missing; use one of single {}, nvswitch {}"},
      {"nvswitch { gbytes_per_second: 300 } devices: 0 link_us: 1",
       "machines.node.devices = 0: must be from 1 to 1024"},
      {"nvswitch { gbytes_per_second: 300 } devices: 5000000000 link_us: 1",
       "machines.node.devices = 5000000000: must be from 1 to 1024"},
      {"nvswitch { gbytes_per_second: 300 } devices: 8 nics: -1 link_us: 1", "machines.node.nics = -1: must be from 0"},
      {"nvswitch { gbytes_per_second: 300 } devices: 8 nics: 0 link_us: 1",
       "machines.node.nics = 0: a node of 8 devices has no port"},
      {"nvswitch {} devices: 8 link_us: 1", "machines.node.nvswitch.gbytes_per_second = 0: must be greater than 0"},
      {"nvswitch { gbytes_per_second: inf } devices: 8 link_us: 1", "machines.node.nvswitch.gbytes_per_second = inf"},
      {"nvswitch { gbytes_per_second: 300 } devices: 8", "machines.node.link_us = 0: must be greater than 0"},
      {"nvswitch { gbytes_per_second: 300 } devices: 8 link_us: -2", "machines.node.link_us = -2"},
      {"nvswitch { gbytes_per_second: 300 } devices: 8 link_us: 1 pcie_gbytes_per_second: -2",
       "machines.node.pcie_gbytes_per_second = -2"},
      {"single {} pcie_us: -3", "machines.node.pcie_us = -3: must not be negative"},
      {"single {} devices: 2", "machines.node.devices = 2: a single node has 1"},
      {"cube_mesh { link_gbytes_per_second: 25 } devices: 4 link_us: 1 pcie_gbytes_per_second: 9",
       "machines.node.devices = 4: a cube_mesh node has 8"},
      {"cube_mesh { link_gbytes_per_second: 25 } link_us: 1", "machines.node.pcie_gbytes_per_second = 0"},
      {"cube_mesh {} link_us: 1 pcie_gbytes_per_second: 9", "machines.node.cube_mesh.link_gbytes_per_second = 0"},
      {"cube_mesh { link_gbytes_per_second: 25 socket_gbytes_per_second: 0 } link_us: 1 pcie_gbytes_per_second: 9",
       "machines.node.cube_mesh.socket_gbytes_per_second = 0"},
      {"nvlink_pairs { gbytes_per_second: 1 host_gbytes_per_second: 1 } devices: 3 link_us: 1",
       "machines.node.devices = 3: must be even"},
      {"nvlink_pairs { gbytes_per_second: 1 } devices: 4 link_us: 1",
       "machines.node.nvlink_pairs.host_gbytes_per_second = 0"},
      {"full_mesh { pair_gbytes_per_second: 0 } devices: 4 link_us: 1",
       "machines.node.full_mesh.pair_gbytes_per_second = 0"},
      {"full_mesh { pair_gbytes_per_second: 1 } devices: 65 link_us: 1",
       "machines.node.devices = 65: must be from 1 to 64"},
      {"pcie_tree { devices_per_switch: 0 } devices: 4 pcie_gbytes_per_second: 9",
       "machines.node.pcie_tree.devices_per_switch = 0"},
      {"pcie_tree { switches_per_socket: 0 } devices: 4 pcie_gbytes_per_second: 9",
       "machines.node.pcie_tree.switches_per_socket = 0"},
      {"pcie_tree {} devices: 4", "machines.node.pcie_gbytes_per_second = 0"},
      {"pcie_tree {} devices: 8 pcie_gbytes_per_second: 9", "machines.node.pcie_tree.socket_gbytes_per_second = 0"},
      {"pcie_tree { socket_gbytes_per_second: 1 } devices: 100 pcie_gbytes_per_second: 9",
       "25 sockets; at most 16 are supported"},
      {"wired {} devices: 2", "machines.node.wired.host_gbytes_per_second = 0"},
      {"wired { host_gbytes_per_second: 1 cable { a: 0 b: 2 gbytes_per_second: 4 } } devices: 2 link_us: 1",
       "machines.node.wired.cable[0].b = 2: must be from 0 to 1"},
      {"wired { host_gbytes_per_second: 1 cable { a: 1 b: 1 gbytes_per_second: 4 } } devices: 2 link_us: 1",
       "connects a device to itself"},
      {"wired { host_gbytes_per_second: 1 cable { a: 0 b: 1 } } devices: 2 link_us: 1",
       "machines.node.wired.cable[0].gbytes_per_second = 0"},
      {"wired { host_gbytes_per_second: 1 cable { a: 0 b: 1 gbytes_per_second: 4 } cable { a: 1 b: 0 "
       "gbytes_per_second: 4 } } devices: 2 link_us: 1",
       "machines.node.wired.cable[1]: 1 and 0 are already connected"},
      {"wired { host_gbytes_per_second: 1 cable { a: 0 b: 1 gbytes_per_second: 4 } } devices: 2",
       "machines.node.link_us = 0"},
      {"wired { host_gbytes_per_second: 1 devices_per_socket: 3 } devices: 2",
       "machines.node.wired.devices_per_socket = 3: must be from 1 to 2"},
      {"wired { host_gbytes_per_second: 1 devices_per_socket: 1 } devices: 2",
       "machines.node.wired.socket_gbytes_per_second = 0"},
      {"wired { host_gbytes_per_second: 1 nic_at: 0 } devices: 2",
       "machines.node.wired.nic_at: lists 1 devices for nics = 2"},
      {"wired { host_gbytes_per_second: 1 nic_at: 2 } devices: 2 nics: 1",
       "machines.node.wired.nic_at[0] = 2: must be from 0 to 1"},
  };
  for (const auto& [text, fragment] : cases) {
    const absl::Status s = CheckCluster(Parse(Node(text)));
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(s.message()), HasSubstr(fragment)) << text;
  }
}

TEST_F(ClusterTest, BadNetworksAreRefused) {
  const std::pair<std::string, const char*> cases[] = {
      {Network(""), "machines.network: kind: missing; use one of star {}, fat_tree {}"},
      {Network("star {} cable_us: -1"), "machines.network.cable_us = -1: must not be negative"},
      {Network("star {} switch_us: -1"), "machines.network.switch_us = -1"},
      {Network("star {} nic_us: nan"), "machines.network.nic_us = nan"},
      {Network("star {}", "0"), "machines.nodes = 0: must be from 1"},
      {"machines { nodes: 2 node { single {} } }", "machines.network: missing; 2 nodes need a network"},
      {"machines { nodes: 2 node { single {} } network { star {} } }",
       "machines.network.link_gbytes_per_second = 0: must be greater than 0"},
      {"machines { nodes: 2000000 node { single {} } network { star {} link_gbytes_per_second: 1 } }",
       "machines.nodes = 2000000: must be from 1 to 1048576"},
      {"machines { nodes: 1000000 node { single {} nics: 2 } network { star {} link_gbytes_per_second: 1 } }",
       "machines.nodes = 1000000: with 2 NICs per node there are 2000000 ports"},
      {Network("fat_tree { radix: 1 }"), "machines.network.fat_tree.radix = 1"},
      {Network("fat_tree { levels: 4 }"), "machines.network.fat_tree.levels = 4: must be 2 or 3"},
      {Network("fat_tree { radix: 5000000000 }"), "machines.network.fat_tree.radix = 5000000000"},
      {Network("fat_tree { oversubscription: -1 }"), "machines.network.fat_tree.oversubscription = -1"},
      {Network("fat_tree { radix: 2 }", "40"),
       "machines.nodes = 40: 1 port per node, fat_tree: ports = 40: 2 levels of switches of radix = 2 join at most"},
      {Network("dragonfly { p: 0 a: 2 h: 1 }"), "machines.network.dragonfly.p = 0"},
      {Network("dragonfly { p: 1 a: 2 h: 1 }", "40"), "machines.nodes = 40: 1 port per node, dragonfly: ports = 40"},
      {Network("dragonfly { p: 1 a: 2 h: 1 global_gbytes_per_second: -1 }"),
       "machines.network.dragonfly.global_gbytes_per_second = -1"},
      {Network("slingshot { groups: 0 }"), "machines.network.slingshot.groups = 0"},
      {Network("slingshot { groups: 2 switches_per_group: 64 }"), "machines.network.slingshot.switches_per_group = 64"},
      {Network("slingshot { groups: 2 global_us: -1 }"), "machines.network.slingshot.global_us = -1"},
      {Network("slingshot { groups: 2 switches_per_group: 1 ports_per_switch: 4 links_between_groups: 1 }", "40"),
       "machines.nodes = 40: 1 port per node, slingshot: ports = 40"},
      {Network("torus {}"), "machines.network.torus.dims"},
      {Network("torus { dims: 2 dims: 0 }"), "machines.network.torus.dims"},
      {Network("torus { dims: 2 dims: -3000000000 }"), "machines.network.torus.dims[1] = -3000000000"},
      {Network("torus { dims: 3 dims: 3 }"), "machines.nodes = 4: 1 port per node, torus: ports = 4: its shape has 9"},
      {Network("hamming_mesh { a: 2 b: 2 x: 0 y: 1 }"), "machines.network.hamming_mesh.x = 0"},
      {Network("hamming_mesh { a: 2 b: 2 x: 2 y: 1 }"), "its shape has 8"},
      {Network("full_mesh {}", "5000"), "machines.nodes = 5000: 1 port per node, full_mesh: ports = 5000"},
      {Network("star {}") + " routing: 'shortest'", "routing"},
      {Network("star {}") + " routing_paths: 0", "routing_paths = 0: must be from 1"},
      {"shared_memory_host { latency_us: -1 }", "shared_memory_host.latency_us = -1"},
      {"star { hosts: 2 link_gbytes_per_second: 1 latency_us: 1 devices_per_host: 2 }", "star.devices_per_host = 2"},
  };
  for (const auto& [text, fragment] : cases) {
    const absl::Status s = CheckCluster(Parse(text));
    EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(s.message()), HasSubstr(fragment)) << text;
  }
}

// Machines with fields of any value: what is not refused can be built, and its routes connect.
void Scramble(google::protobuf::Message& message, std::mt19937& random, int depth = 0) {
  const auto pick = [&](auto list) { return list.begin()[random() % list.size()]; };
  const google::protobuf::Reflection& r = *message.GetReflection();
  const unsigned one = static_cast<unsigned>(random());
  for (int f = 0; f < message.GetDescriptor()->field_count(); ++f) {
    const google::protobuf::FieldDescriptor* field = message.GetDescriptor()->field(f);
    const google::protobuf::OneofDescriptor* oneof = field->containing_oneof();
    if (field->name() == "file" || random() % 8 < (depth < 2 ? 1u : 3u)) continue;
    if (oneof != nullptr && field != oneof->field(static_cast<int>(one % static_cast<unsigned>(oneof->field_count()))))
      continue;
    for (unsigned n = field->is_repeated() ? random() % 4 : 1; n > 0; --n) {
      const int64_t whole =
          pick(std::initializer_list<int64_t>{1, 1, 2, 2, 2, 3, 4, 4, 4, 6, 8, 16, 0, -1, int64_t{1} << 40});
      const double real = pick(std::initializer_list<double>{1, 2, 25, 25, 25, 25, 25, 300, 0.5, 0, -1, 1e300});
      switch (field->cpp_type()) {
        case google::protobuf::FieldDescriptor::CPPTYPE_INT64:
          field->is_repeated() ? r.AddInt64(&message, field, whole) : r.SetInt64(&message, field, whole);
          break;
        case google::protobuf::FieldDescriptor::CPPTYPE_DOUBLE: r.SetDouble(&message, field, real); break;
        case google::protobuf::FieldDescriptor::CPPTYPE_BOOL: r.SetBool(&message, field, whole % 2 != 0); break;
        case google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE:
          Scramble(field->is_repeated() ? *r.AddMessage(&message, field) : *r.MutableMessage(&message, field), random,
                   depth + 1);
          break;
        default: break;
      }
    }
  }
}

TEST_F(ClusterTest, WhatIsNotRefusedIsBuilt) {
  std::mt19937 random(TestSeed());
  int built = 0, refused = 0;
  std::set<std::pair<int, int>> kinds;
  for (int i = 0; i < 20000; ++i) {
    cluster::Cluster c;
    Scramble(*c.mutable_machines(), random);
    if (!CheckCluster(c).ok()) {
      ++refused;
      continue;
    }
    const auto t = BuildTopology(c, static_cast<int>(MostNodes(c)));
    ASSERT_TRUE(t.ok()) << t.status() << "\n" << c.DebugString();
    ExpectRoutesConnect(**t, 20);
    ASSERT_FALSE(HasFatalFailure()) << c.DebugString();
    kinds.insert({c.machines().node().kind_case(), c.machines().network().kind_case()});
    ++built;
  }
  EXPECT_GT(refused, 1000);
  EXPECT_GT(built, 100);
  EXPECT_GT(kinds.size(), 20u);
  std::printf("%d built of %zu kinds, %d refused\n", built, kinds.size(), refused);
}

// ---- Nodes from files ----
class NodeFileTest : public testing::Test {
 protected:
  ~NodeFileTest() override { std::filesystem::remove_all(folder); }
  // A cluster's file beside a node's, which it names as seen from its own folder.
  std::string Write(const std::string& node, const std::string& more = "") const {
    std::filesystem::create_directories(folder);
    const auto from = std::filesystem::path("tests/data/topologies") / node;
    if (std::filesystem::exists(from)) {
      std::filesystem::copy_file(from, folder + "/" + node, std::filesystem::copy_options::overwrite_existing);
    }
    std::ofstream(folder + "/cluster.textproto")
        << "name: 'x' machines { nodes: 3 node { file: '" << node << "' " << more
        << "} network { star {} link_gbytes_per_second: 12.5 cable_us: 1 } }";
    return folder + "/cluster.textproto";
  }
  const std::string folder = StrCat(testing::TempDir(), "/node_file_test-", getpid());
};

TEST_F(NodeFileTest, NodesOfTheFileOnANetwork) {
  for (const char* file : {"dgx-1v.nccl.xml", "dgx-1v.smi.txt", "dgx-h100.nccl.xml", "pcie-4.nccl.xml"}) {
    SCOPED_TRACE(file);
    const auto c = FindCluster(Write(file));
    ASSERT_TRUE(c.ok()) << c.status();
    const auto t = BuildTopology(*c, 3);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_EQ((*t)->nodes(), 3);
    EXPECT_EQ((*t)->endpoints(), 3 * *DevicesPerNode(*c));
    ExpectRoutesConnect(**t);
  }
}

// A matrix of nvidia-smi has no rates, so that a cluster's file may say that of PCIe.
TEST_F(NodeFileTest, TheClustersFileSaysTheRateOfPcie) {
  const auto c = FindCluster(Write("pcie-4.smi.txt", "pcie_gbytes_per_second: 40"));
  ASSERT_TRUE(c.ok()) << c.status();
  const auto node = BuildNode(c->machines());
  ASSERT_TRUE(node.ok()) << node.status();
  int links = 0;
  for (const Link& link : node->graph.links) {
    if (link.medium != Medium::kPcie) continue;
    EXPECT_DOUBLE_EQ(link.bandwidth.value(), 40e9);
    ++links;
  }
  EXPECT_GT(links, 0);
}

TEST_F(NodeFileTest, WhatCannotBeANodeIsRefused) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"absent.xml", "", "machines.node.file: "},
      {"dgx-1v.nccl.xml", "devices: 8", "machines.node.file: the file determines devices, NICs and links"},
      {"star.simgrid.xml", "", "machines.node.nics = 0"},  // hosts without NICs
      {"pcie-4.nccl.xml", "pcie_gbytes_per_second: 50", "states the rates of its links; leave it out"},
      {"pcie-4.smi.txt", "pcie_gbytes_per_second: -1", "machines.node.pcie_gbytes_per_second = -1"},
  };
  for (const auto& [file, more, fragment] : cases) {
    const auto c = FindCluster(Write(file, more));
    ASSERT_FALSE(c.ok()) << file;
    EXPECT_THAT(std::string(c.status().message()), HasSubstr(fragment));
    EXPECT_THAT(std::string(c.status().message()), HasSubstr("cluster.textproto"));
  }
}

// ---- Size: 16,384 devices in well under a second and 500 MB ----
TEST(ScaleTest, SixteenThousandDevicesAreBuiltFast) {
  const cluster::Cluster c = Load("dgx-h100-16k");
  const std::clock_t start = std::clock();
  const auto t = BuildTopology(c, 2048);
  if (t.ok()) (*t)->links();  // lists them, and the vertices
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_LT(seconds, 5);  // 0.05 without sanitizers
  double bytes = 0;
  for (const Link& l : (*t)->links())
    bytes += static_cast<double>(sizeof(l) + (l.name.capacity() > 15 ? l.name.capacity() : 0));
  for (const Vertex& v : (*t)->vertices())
    bytes += static_cast<double>(sizeof(v) + (v.name.capacity() > 15 ? v.name.capacity() : 0));
  EXPECT_LT(bytes, 100e6);
  std::printf("%.3f s, %.0f MB of vertices and links\n", seconds, bytes / 1e6);
}

}  // namespace build_test
}  // namespace twofold
