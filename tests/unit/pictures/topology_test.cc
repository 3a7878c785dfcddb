#include <set>

#include "experiments/program/pictures/contracted.h"
#include "experiments/program/pictures/topology_layouts.h"
#include "experiments/program/pictures/topology_picture.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/import/node_file.h"

namespace twofold::pictures {
namespace topology_test {

using testing::HasSubstr;

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string Draw(const std::string& name, int nodes = 0) {
  const auto cluster = FindCluster(name);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  const auto topology =
      BuildTopology(*cluster, nodes > 0                           ? nodes
                              : cluster->has_shared_memory_host() ? 4
                                                                  : static_cast<int>(MostNodes(*cluster)));
  EXPECT_TRUE(topology.ok()) << topology.status();
  TopologyStory story{.title = name, .subtitle = "about it", .cluster = &*cluster, .topology = topology->get()};
  if (cluster->has_machines()) story.node = *BuildNode(cluster->machines());
  return TopologyPicture(story);
}

TEST(TopologyPicture, EveryClusterOfTheCatalogueDraws) {
  for (const ClusterInfo& info : ListClusters()) {
    const std::string svg = Draw(info.name);
    EXPECT_THAT(svg, HasSubstr("<svg xmlns")) << info.name;
    EXPECT_GE(Count(svg, "<rect class=\"b-"), 2u) << info.name;  // a host of shared memory is one node
    EXPECT_LT(Count(svg, "<rect class=\"b-"), 800u) << info.name << ": more than a person can read";
    EXPECT_LT(Count(svg, "<path class=\"wire"), 1500u) << info.name;
    EXPECT_EQ(Count(svg, "nan"), 0u) << info.name;
    EXPECT_LT(svg.size(), size_t{300} << 10) << info.name;
  }
}

TEST(TopologyPicture, ASmallDragonflyIsDrawnWhole) {
  const std::string svg = Draw("docs/topologies/dragonfly.textproto");
  EXPECT_EQ(Count(svg, "<g><rect class=\"b-switch\""), 36u + 1);  // and one in the legend
  EXPECT_EQ(Count(svg, "<g><rect class=\"b-device\""), 72u + 1);
  EXPECT_EQ(Count(svg, "GB/s each way"), 162u);  // 72 to nodes, 54 within groups, 36 between them
}

TEST(TopologyPicture, ATorusAndAHammingMeshHaveAllTheirPlaces) {
  EXPECT_EQ(Count(Draw("docs/topologies/torus.textproto"), "<g><rect class=\"b-device\""), 64u + 1);
  const std::string mesh = Draw("docs/topologies/hamming-mesh.textproto");
  EXPECT_EQ(Count(mesh, "<g><rect class=\"b-device\""), 48u + 1);
  EXPECT_EQ(Count(mesh, "<g><rect class=\"b-switch\""), 14u + 1);  // six rows and eight columns
  EXPECT_EQ(Count(mesh, "GB/s each way"), 144u);
}

TEST(TopologyPicture, ALargeFatTreeSaysWhatIsLeftOut) {
  const std::string svg = Draw("dgx-h100");
  EXPECT_THAT(svg, HasSubstr("of 256 nodes"));
  EXPECT_THAT(svg, HasSubstr("a part is drawn"));
  EXPECT_THAT(svg, HasSubstr("one node"));
}

TEST(TopologyPicture, ANodeHasAllItsParts) {
  const std::string svg = Draw("dgx-1v", 1);
  for (const char* part : {">gpu7<", ">nic3<", ">plx3<", ">socket1<"}) {
    EXPECT_EQ(Count(svg, part), 2u) << part;  // label and title
  }
  EXPECT_EQ(Count(svg, "gpu0 - gpu3: 50 GB/s each way"), 1u);
  EXPECT_EQ(Count(svg, "<path class=\"wire w-nvlink\""), 16u + 2);  // the mesh's bundles, and two widths in the legend
}

TEST(TopologyPicture, AnImportedNodeDraws) {
  const auto node = ReadNodeFile("tests/data/topologies/dgx-h100.nccl.xml");
  ASSERT_TRUE(node.ok()) << node.status();
  const Scene scene = NodeScene(*node);
  EXPECT_EQ(scene.boxes.size(), node->graph.vertices.size());
  EXPECT_EQ(2 * scene.wires.size(), node->graph.links.size());
  std::set<std::pair<double, double>> places;
  for (const Box& box : scene.boxes)
    EXPECT_TRUE(places.insert({box.at.x, box.at.y}).second) << box.title << " is drawn upon another";
}

// Nodes of several ports are one thing each: what is drawn by places is drawn by levels then.
TEST(TopologyPicture, ATorusOfNodesWithManyPortsDraws) {
  auto c = *FindCluster("dgx-h100");
  c.mutable_machines()->set_nodes(4);
  cluster::Network& network = *c.mutable_machines()->mutable_network();
  for (const bool mesh : {false, true}) {
    network.Clear();
    network.set_link_gbytes_per_second(50);
    if (mesh)
      network.mutable_hamming_mesh()->set_a(2), network.mutable_hamming_mesh()->set_b(2),
          network.mutable_hamming_mesh()->set_x(4), network.mutable_hamming_mesh()->set_y(2);
    else
      network.mutable_torus()->add_dims(32);
    const auto topology = BuildTopology(c, 4);
    ASSERT_TRUE(topology.ok()) << topology.status();
    TopologyStory story{.title = "nodes", .subtitle = "of eight", .cluster = &c, .topology = topology->get()};
    story.node = *BuildNode(c.machines());
    EXPECT_GE(Count(TopologyPicture(story), "<rect class=\"b-"), 4u);
  }
}

TEST(Contract, NodesBecomeOneThing) {
  const auto cluster = FindCluster("dgx-h100");
  const auto topology = BuildTopology(*cluster, 2);
  const Contracted net = Contract(**topology);
  EXPECT_EQ(net.nodes, (*topology)->nodes());
  EXPECT_EQ(net.things[0].devices, 8);
  EXPECT_EQ(net.things[0].nics, 8);
  int cables = 0;
  for (const int bundle : net.of[0]) cables += net.bundles[static_cast<size_t>(bundle)].cables;
  EXPECT_EQ(cables, 8);
}

}  // namespace topology_test
}  // namespace twofold::pictures
