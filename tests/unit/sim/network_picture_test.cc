// Pictures of networks: every part is in one cell, every link in one edge, and bytes sum to those of the links.
#include "sim/network_picture.h"

#include <map>
#include <numeric>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold::sim {
namespace network_picture_test {

using testing::ElementsAre;
using testing::Pair;

std::unique_ptr<Topology> Built(const std::string& name, int nodes = 0) {
  const auto cluster = FindCluster(name);
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  auto topology = BuildTopology(*cluster, nodes > 0                           ? nodes
                                          : cluster->has_shared_memory_host() ? 4
                                                                              : static_cast<int>(MostNodes(*cluster)));
  EXPECT_TRUE(topology.ok()) << topology.status();
  return *std::move(topology);
}

// Link l carries 1 + l % 5 bytes in bin l % 3, or nothing.
int NumberOfLink(int link) { return link % 4 == 0 ? 0 : 1 + link % 60; }
std::vector<double> BytesOfNumber(int number) {
  std::vector<double> bytes(3);
  bytes[static_cast<size_t>(number % 3)] = 1 + number % 5;
  return bytes;
}

void CheckPictures(const Topology& topology, const std::string& name) {
  const network::Pictures pictures = PicturesOf(topology, 0, 0, 1e-9, NumberOfLink, BytesOfNumber);
  int64_t links = 0;
  double bytes = 0;
  for (size_t l = 0; l < topology.links().size(); ++l) {
    if (topology.links()[l].from < 0 || topology.links()[l].to < 0) continue;
    ++links;
    if (const int number = NumberOfLink(static_cast<int>(l)); number > 0) bytes += 1 + number % 5;
  }
  ASSERT_GT(pictures.pictures_size(), 0) << name;
  EXPECT_EQ(pictures.pictures(0).detail(), "levels");
  for (const network::Picture& picture : pictures.pictures()) {
    EXPECT_LE(static_cast<size_t>(picture.cells_size()), kMostCells) << name;
    EXPECT_LE(static_cast<size_t>(picture.edges_size()), kMostEdges) << name;
    size_t parts = 0;
    for (const network::Cell& cell : picture.cells()) parts += static_cast<size_t>(cell.parts());
    EXPECT_EQ(parts, topology.vertices().size()) << name << " " << picture.detail();
    int64_t drawn = 0;
    double carried = 0;
    for (const network::Edge& edge : picture.edges()) {
      drawn += edge.links(), carried += edge.bytes();
      double of_series = 0;
      if (edge.series() >= 0)
        for (const int64_t load : pictures.series(static_cast<int>(edge.series())).load())
          of_series += static_cast<double>(load) * 1e-6 * 1e-9 * edge.bandwidth();
      EXPECT_NEAR(of_series, edge.bytes(), 3 * 0.5e-6 * 1e-9 * edge.bandwidth() + 1e-9 * edge.bytes()) << name;
    }
    EXPECT_EQ(drawn, links) << name << " " << picture.detail();
    EXPECT_NEAR(carried, bytes, 1e-6 * bytes) << name << " " << picture.detail();
  }
}

TEST(NetworkPictures, EveryClusterOfTheCatalogueHasOnes) {
  for (const ClusterInfo& info : ListClusters()) CheckPictures(*Built(info.name), info.name);
}

std::vector<std::string> DetailsOf(const std::string& name, int nodes = 0) {
  std::vector<std::string> details;
  for (const Partition& partition : PartitionsOf(*Built(name, nodes), 0)) details.emplace_back(partition.detail);
  return details;
}

TEST(NetworkPictures, DetailsSuitTheNetwork) {
  EXPECT_THAT(DetailsOf("dgx-1v", 1), ElementsAre("levels", "all parts"));
  EXPECT_THAT(DetailsOf("dgx-h100-16k"), ElementsAre("levels", "groups", "one group", "one node"));
  EXPECT_THAT(DetailsOf("frontier"), ElementsAre("levels", "one group", "one node"))
      << "74 groups, each joined with each";
  EXPECT_THAT(DetailsOf("docs/topologies/torus.textproto"), ElementsAre("levels", "nodes"));
  EXPECT_THAT(DetailsOf("tpu-v4-pod"), ElementsAre("levels", "blocks"));
  EXPECT_THAT(DetailsOf("hammingmesh-16k"), ElementsAre("levels", "blocks"));
}

// The group of node 200 of frontier: 32 switches, 128 nodes.
TEST(NetworkPictures, OneGroupHasItsSwitchesAndNodes) {
  const auto topology = Built("frontier");
  for (const Partition& partition : PartitionsOf(*topology, 200)) {
    if (partition.detail != "one group") continue;
    std::map<std::string, int> kinds;
    std::set<std::string> names;
    for (const network::Cell& cell : partition.cells) ++kinds[cell.kind()], names.insert(cell.name());
    EXPECT_THAT(kinds,
                ElementsAre(Pair("node", 128), Pair("part", 1), Pair("switch", 1), Pair("switch of level 0", 32)));
    EXPECT_TRUE(names.contains("node 200") && !names.contains("node 0"));
    return;
  }
  FAIL() << "no picture of one group";
}

TEST(NetworkPictures, CellsOfAGridAreAtTheirPlaces) {
  for (const char* name : {"docs/topologies/torus.textproto", "tpu-v4-pod", "hammingmesh-16k"}) {
    const auto topology = Built(name);
    const Partition last = PartitionsOf(*topology, 0).back();
    std::set<std::vector<int64_t>> places;
    for (const network::Cell& cell : last.cells) {
      if (cell.layer() > 0) continue;
      EXPECT_EQ(static_cast<size_t>(cell.place_size()), topology->grid().size()) << name << " " << cell.name();
      EXPECT_TRUE(places.insert({cell.place().begin(), cell.place().end()}).second) << name << " " << cell.name();
    }
    EXPECT_GE(places.size(), 64u) << name;
  }
}

}  // namespace network_picture_test
}  // namespace twofold::sim
