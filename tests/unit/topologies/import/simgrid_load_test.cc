// SimGrid itself loads the platforms that are written for it, and finds the routes in them that the topology has.
#include <sys/wait.h>
#include <unistd.h>
#include <simgrid/s4u.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/deadline.h"
#include "tests/unit/topologies/import/files.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/import/node_file.h"
#include "topologies/import/simgrid_xml.h"

namespace twofold {
namespace simgrid_load_test {

std::string NameOf(const Topology& topology, int endpoint) {
  return topology.vertices()[static_cast<size_t>(endpoint)].name;
}

// In a process of its own, as there is one engine a process: 0, or the number of pairs that differ.
int Compare(const Topology& topology, int endpoints, const std::string& path) {
  int argc = 3;
  char program[] = "test", model[] = "--cfg=network/model:CM02", quiet[] = "--log=root.thresh:warning";
  char* argv[] = {program, model, quiet, nullptr};
  simgrid::s4u::Engine engine(&argc, argv);
  engine.load_platform(path);
  if (static_cast<int>(engine.get_host_count()) != endpoints) return 200;
  int different = 0;
  std::vector<int> route;
  for (Pair pair{0, 0}; pair.from < endpoints; ++pair.from) {
    for (pair.to = 0; pair.to < endpoints; ++pair.to) {
      if (pair.from == pair.to) continue;
      std::vector<simgrid::s4u::Link*> links;
      double latency = 0, sum = 0;
      engine.host_by_name(NameOf(topology, pair.from))
          ->route_to(engine.host_by_name(NameOf(topology, pair.to)), links, &latency);
      topology.Route(pair, topology.DefaultRoute(pair), route);
      bool same = links.size() == route.size();
      for (size_t i = 0; same && i < route.size(); ++i) {
        const Link& link = topology.links()[static_cast<size_t>(route[i])];
        same = links[i]->get_bandwidth() == link.bandwidth.value() && links[i]->get_latency() == link.latency.value();
        sum += link.latency.value();
      }
      different += !same || std::abs(latency - sum) > 1e-15;
    }
  }
  return std::min(different, 199);
}

void ExpectLoaded(const Topology& topology, int endpoints, const std::string& name) {
  const auto xml = SimgridOf(topology, 1e9, endpoints);
  ASSERT_TRUE(xml.ok()) << xml.status();
  const std::string path = ::testing::TempDir() + "/" + name + "-" + std::to_string(getpid()) + ".simgrid.xml";
  std::ofstream(path) << WriteSimgridXml(*xml);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(Compare(topology, endpoints, path));
  const int status = AwaitProcess(child, "SimGrid on " + path);
  ASSERT_TRUE(WIFEXITED(status)) << name << ": SimGrid did not load it";
  EXPECT_EQ(WEXITSTATUS(status), 0) << name;
  std::remove(path.c_str());
}

TEST(SimgridLoad, ACubeMesh) {
  const auto node = ReadNodeFile("tests/data/topologies/dgx-1v.nccl.xml");
  ASSERT_TRUE(node.ok()) << node.status();
  ExpectLoaded(*MakeGraphTopology("node", node->graph, node->devices), 8, "dgx-1v");
}

TEST(SimgridLoad, NodesOfClusters) {
  for (const char* name : {"dgx-h100", "alps", "hammingmesh-1k", "tpu-v4-pod"}) {
    const auto cluster = FindCluster(name);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    const auto topology = BuildTopology(*cluster, 4);
    ASSERT_TRUE(topology.ok()) << topology.status();
    const auto devices = DevicesPerNode(*cluster);
    ExpectLoaded(**topology, 4 * *devices, name);
  }
}

}  // namespace simgrid_load_test
}  // namespace twofold
