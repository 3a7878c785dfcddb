#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "topologies/catalogue.h"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/star.h"

namespace twofold {
namespace topologies_test {

TEST(StarTest, RoutesUpAndDown) {
  auto star = MakeStar({.hosts = 5, .bandwidth = BytesPerSecond(7), .latency = Seconds(3)});
  EXPECT_EQ(star->endpoints(), 5);
  EXPECT_EQ(star->links().size(), 10u);
  std::vector<int> route;
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 5; ++j) {
      if (i == j) continue;
      star->Route({i, j}, 0, route);
      ASSERT_EQ(route.size(), 2u);
      EXPECT_EQ(star->links()[static_cast<size_t>(route[0])].name, "h" + std::to_string(i) + ".up");
      EXPECT_EQ(star->links()[static_cast<size_t>(route[1])].name, "h" + std::to_string(j) + ".down");
    }
  }
  EXPECT_EQ(star->Latency({0, 4}), Seconds(3));
}

TEST(SharedMemoryHostTest, AllMeetInMemory) {
  auto host =
      MakeSharedMemoryHost({.ranks = 4, .core_bandwidth = BytesPerSecond(10), .total_bandwidth = BytesPerSecond(16)});
  EXPECT_EQ(host->links().size(), 5u);
  std::vector<int> route;
  host->Route({0, 2}, 0, route);
  EXPECT_EQ(route, (std::vector<int>{2, 4}));
  EXPECT_EQ(host->bandwidth(), BytesPerSecond(4));  // a quarter of the memory system
}

TEST(CatalogueTest, EveryClusterLoadsAndNamesItsSource) {
  const auto clusters = ListClusters();
  ASSERT_GE(clusters.size(), 3u);
  for (const ClusterInfo& info : clusters) {
    EXPECT_TRUE(FindCluster(info.name).ok());
    EXPECT_FALSE(info.summary.empty()) << info.name;
    EXPECT_FALSE(info.source.empty()) << info.name;
  }
}

TEST(CatalogueTest, UnknownNamesListTheKnown) {
  const auto c = FindCluster("dgx-imaginary");
  ASSERT_FALSE(c.ok());
  EXPECT_NE(c.status().message().find("dgx-imaginary"), std::string::npos);
  EXPECT_NE(c.status().message().find("star-a100"), std::string::npos);
}

TEST(CatalogueTest, MisspeltNamesAreMended) {
  const auto c = FindCluster("dgxh100");
  ASSERT_FALSE(c.ok());
  EXPECT_NE(c.status().message().find("; did you mean dgx-h100"), std::string::npos) << c.status();
}

class ClusterFileTest : public testing::Test {
 protected:
  ~ClusterFileTest() override { std::filesystem::remove(path); }
  std::string Write(const std::string& text) {
    std::ofstream(path) << text;
    return path;
  }
  const std::string path = StrCat(testing::TempDir(), "/", getpid(), "-cluster.textproto");
};

TEST_F(ClusterFileTest, AFileIsACluster) {
  const auto c = FindCluster(
      Write("name: 'mine' device { kind: CPU_DEVICE } star { hosts: 2 link_gbytes_per_second: 1 latency_us: 5 }"));
  ASSERT_TRUE(c.ok()) << c.status();
  EXPECT_EQ(c->star().hosts(), 2);
}

TEST_F(ClusterFileTest, AByteOrderMarkIsSkipped) {
  EXPECT_TRUE(
      FindCluster(Write("\xef\xbb\xbfname: 'mine' star { hosts: 2 link_gbytes_per_second: 1 latency_us: 5 }")).ok());
}

TEST_F(ClusterFileTest, BadFilesAreRefusedByFieldAndValue) {
  const std::pair<const char*, const char*> cases[] = {
      {"name: 'x' star { hosts: 0 link_gbytes_per_second: 1 latency_us: 1 }", "star.hosts = 0"},
      {"name: 'x' star { hosts: 2 link_gbytes_per_second: -1 latency_us: 1 }", "star.link_gbytes_per_second = -1"},
      {"name: 'x'", "topology: missing"},
      {"star { hosts: 2 }", "name: missing"},
      {"name: 'x' stair {}", "cluster.textproto:1:11: stair: \"stair\" is not a field; did you mean star?"},
      {"name: 'x' star { host: 2 }", "star.host: \"host\" is not a field; did you mean hosts or "},
      {"model { preset: 'gpt-3m' }", "this is a spec, not a cluster; give a name from"},
      {"name: 'x' device { kind: GPU_DEVICE } shared_memory_host {}", "device.memory_bytes"},
      {"name: 'x' device { launch_us: -5 } shared_memory_host {}", "device.launch_us = -5"},
      {"name: 'x' device { communication_launch_us: -5 } shared_memory_host {}", "device.communication_launch_us = -5"},
      {"name: 'x' device { kernel_us: -1 } shared_memory_host {}", "device.kernel_us = -1"},
      {"name: 'x' device { speed_spread: -0.1 } shared_memory_host {}", "device.speed_spread = -0.1"},
  };
  for (const auto& [text, fragment] : cases) {
    const auto c = FindCluster(Write(text));
    ASSERT_FALSE(c.ok()) << text;
    EXPECT_NE(c.status().message().find(fragment), std::string::npos) << c.status();
    EXPECT_NE(c.status().message().find("cluster.textproto"), std::string::npos) << c.status();
  }
}

}  // namespace topologies_test
}  // namespace twofold
