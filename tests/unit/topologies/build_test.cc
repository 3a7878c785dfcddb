// From a cluster's description to its topology, and the catalogue.
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/routes.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

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
    EXPECT_GT(t->alpha(), Seconds(0));
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

TEST(CatalogueBuildTest, EveryClusterHasOneNode) {
  for (const ClusterInfo& info : ListClusters()) {
    SCOPED_TRACE(info.name);
    const cluster::Cluster c = Load(info.name);
    if (!c.has_machines()) continue;
    const auto t = Build(info.name, 1);
    EXPECT_EQ(t->nodes(), 1);
    EXPECT_EQ(t->endpoints(), *DevicesPerNode(c));
    for (const Vertex& v : t->vertices()) EXPECT_EQ(v.node, 0) << v.name;
    if (t->endpoints() > 1) ExpectRoutesConnect(*t);
  }
}

}  // namespace
}  // namespace twofold
