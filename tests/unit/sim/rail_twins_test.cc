// One rail and a few nodes against all flows, one by one: the same loads of links, the same latencies, the same times.
#include "sim/rail_twins.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/kind_loads.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/phase_times.h"
#include "sim/places.h"
#include "tests/seed.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/degraded.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/nodes/nvlink_pairs.h"
#include "topologies/nodes/nvswitch.h"
#include "topologies/nodes/pcie_tree.h"

namespace twofold::sim {
namespace rail_twins_test {

struct Call {
  NcclAlgorithm algorithm;
  Communication::Kind kind;
  int root = 0;
};

// Nodes of 4 devices and as many NICs as the tree has rails.
std::unique_ptr<Topology> Cluster(FatTreeOptions tree, int nodes, int kind) {
  const NodeNics nics{.count = tree.rails};
  tree.ports = nodes * tree.rails;
  NodeType node = kind == 0   ? MakeNvSwitchNode({.devices = 4, .multicast = true, .nics = nics})
                  : kind == 1 ? MakePcieTreeNode({.devices = 4, .nics = nics})
                              : MakeNvlinkPairsNode({.devices = 4, .nics = nics});
  return MakeClusterTopology(std::move(node), nodes, MakeFatTree(tree));
}

constexpr double kRate = 3000;  // of a flow, per byte of it

// The flows of a route by node, with bytes and costs that differ by kind.
Phase ByNode(const NcclRoute& route) {
  std::vector<Flow> kinds;
  for (const NcclHop& h : route.kinds) {
    kinds.push_back({.from = 0,
                     .to = 0,
                     .bytes = 1e6 * h.share,
                     .crossings = h.crossings + 0.25,  // every kind counts
                     .hop_seconds = h.between ? 3e-6 : 1e-6,
                     .rate = kRate * 1e6 * h.share});
  }
  return {.flows = FlowList(std::make_shared<const FlowPattern>(route.by_node), std::move(kinds))};
}
Phase OneByOne(const Phase& phase) {
  Phase listed = phase;
  listed.flows = FlowList(std::make_shared<const FlowPattern>(phase.flows.pattern()->flows()), phase.flows.kinds());
  return listed;
}

using Loads = std::set<std::pair<double, LinkStates::Counts>>;
Loads LoadsOf(const LinkStates& states) {
  Loads loads;
  for (const LinkStates::Load& load : states.Loads()) loads.emplace(load.bandwidth, load.flows);
  return loads;
}

// Of all flows, one after another.
Loads LoadsOf(const Topology& topology, const Phase& phase, const std::vector<int>& endpoints,
              const std::vector<double>& sizes) {
  LinkStates states(topology);
  states.Start(sizes);
  std::vector<int> route;
  for (const Flow& f : phase.flows) {
    const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)]};
    topology.Route(pair, topology.DefaultRoute(pair), route);
    states.Cross(route, f.bytes);
  }
  return LoadsOf(states);
}

std::set<KindLoads::Load> Different(const std::vector<KindLoads::Load>& loads) { return {loads.begin(), loads.end()}; }

void HoldKindLoads(const Phase& by_node, const Phase& listed, const Places& places) {
  const size_t kinds = by_node.flows.kinds().size();
  const KindLoads &own = KindLoadsOf(*by_node.flows.pattern(), kinds, places),
                  &all = KindLoadsOf(*listed.flows.pattern(), kinds, places);
  EXPECT_EQ(Different(own.sent), Different(all.sent));
  EXPECT_EQ(Different(own.within), Different(all.within));
  EXPECT_EQ(Different(own.between), Different(all.between));
  for (size_t k = 0; k < kinds; ++k) {
    EXPECT_EQ(own.kinds[k].flows, all.kinds[k].flows) << k;
    EXPECT_TRUE(all.kinds[k].flows == 0 || own.kinds[k].between == all.kinds[k].between) << k;
  }
}

// Whether one rail stood for all.
bool Hold(const Topology& topology, const std::vector<int>& endpoints, const Call& call) {
  const Places places = PlacesOf(topology, endpoints);
  const CollectiveShape shape{call.kind, places.ranks(), 1, call.root, {}};
  const absl::StatusOr<NcclRoute> route = MakeNcclRoute(call.algorithm, shape, places);
  if (!route.ok()) return false;  // nvls_tree: no multicast
  TWOFOLD_CHECK(route->by_node != nullptr, "nodes are alike");
  const Phase by_node = ByNode(*route), listed = OneByOne(by_node);
  EXPECT_EQ(by_node.flows.size(), listed.flows.size());
  const std::vector<Phase> phases = {listed};
  EXPECT_EQ(route->by_node->LastPhase(),
            LastPhases(phases, places.ranks(), [](const Phase& phase) -> const FlowList& { return phase.flows; }));
  HoldKindLoads(by_node, listed, places);
  std::vector<double> sizes;
  for (const Flow& kind : by_node.flows.kinds())
    if (std::find(sizes.begin(), sizes.end(), kind.bytes) == sizes.end()) sizes.push_back(kind.bytes);
  const auto twins = RailTwins::Of(topology, RoutingPolicy::kDeterministic, by_node, endpoints);
  const Loads loads = LoadsOf(topology, listed, endpoints, sizes);
  if (twins) {
    LinkStates states(topology);
    states.Start(sizes);
    twins->Cross(states);
    EXPECT_EQ(LoadsOf(states), loads);
  }
  for (const double bytes : {1.0, 0.0}) {  // a barrier has none
    Router router(topology, {});
    PhaseTimes times(topology, router);
    PhaseTimes::Time got, want;
    for (const bool all : {false, true}) {
      Phase phase = all ? listed : by_node;
      std::vector<Flow> kinds = phase.flows.kinds();
      for (Flow& kind : kinds) kind.bytes *= bytes;
      phase.flows = FlowList(phase.flows.pattern(), std::move(kinds));
      const PhaseTimes::Part part{phase, endpoints};
      (all ? want : got) = times.Bound({&part, 1});
    }
    EXPECT_EQ(got.exact, want.exact);
    EXPECT_NEAR(got.latency / want.latency, 1, 1e-12);
    EXPECT_NEAR(got.seconds / want.seconds, 1, 1e-12);
    if (bytes == 0) continue;
    double most = 0;  // of a link's bandwidth, if every flow has its rate
    for (const auto& [bandwidth, flows] : loads) {
      double rate = 0;
      for (size_t size = 0; size < sizes.size(); ++size) rate += kRate * flows[size] * sizes[size];
      most = std::max(most, rate / bandwidth);
    }
    EXPECT_NEAR(got.most / most, 1, 1e-12);
    EXPECT_NEAR(want.most / most, 1, 1e-12);
  }
  return twins.has_value();
}

std::vector<Call> Calls(int ranks) {
  using Kind = Communication::Kind;
  constexpr auto kRing = NcclAlgorithm::kRing;
  return {{kRing, Kind::kAllGather},
          {kRing, Kind::kAllReduce},
          {NcclAlgorithm::kTree, Kind::kAllReduce},
          {NcclAlgorithm::kNvlsTree, Kind::kAllReduce},
          {kRing, Kind::kBroadcast, 0},
          {kRing, Kind::kBroadcast, ranks / 2 + 1},
          {kRing, Kind::kBroadcast, ranks - 1},
          {kRing, Kind::kReduce, 0},
          {kRing, Kind::kReduce, ranks - 2}};
}

// The endpoints of some nodes, the first `each` of them.
std::vector<int> EndpointsOf(const std::vector<int>& nodes, int each) {
  std::vector<int> endpoints;
  for (const int node : nodes) {
    for (int d = 0; d < each; ++d) endpoints.push_back(4 * node + d);
  }
  return endpoints;
}

struct Tree {
  FatTreeOptions options;
  int nodes;
  bool twins;
};
const std::vector<Tree>& Trees() {
  static const auto* const kTrees = new std::vector<Tree>{
      {{.radix = 16, .rails = 4}, 13, true},
      {{.levels = 3, .radix = 8, .rails = 2}, 31, true},
      {{.levels = 3, .radix = 8, .rails = 4}, 30, true},
      {{.levels = 3, .radix = 8, .top_oversubscription = 3, .rails = 2}, 37, true},
      {{.levels = 3, .radix = 12, .oversubscription = 0.5, .rails = 2}, 29, true},
      {{.levels = 3, .radix = 8, .rails = 1}, 33, true},
      {{.levels = 3, .radix = 12, .rails = 4}, 40, false},  // 36 places of a pod's middle switches, 24 of the rails
      {{.levels = 3, .radix = 12, .oversubscription = 2, .top_oversubscription = 3, .rails = 2}, 60, false},
  };
  return *kTrees;
}

TEST(RailTwins, BringUponLinksWhatAllFlowsDo) {
  std::mt19937 random(TestSeed());
  for (const Tree& tree : Trees()) {
    for (const int kind : {0, 1, 2}) {
      const auto topology = Cluster(tree.options, tree.nodes, kind);
      EXPECT_EQ(topology->rails_are_twins(), tree.twins);
      std::vector<int> all(static_cast<size_t>(tree.nodes));
      std::iota(all.begin(), all.end(), 0);
      std::vector<int> drawn = all;
      std::shuffle(drawn.begin(), drawn.end(), random);
      drawn.resize(drawn.size() * 2 / 3);
      for (const auto& [nodes, each] : {std::pair(all, 4), {drawn, 4}, {drawn, 2}, {all, 1}, {{3, 1}, 4}}) {
        const std::vector<int> endpoints = EndpointsOf(nodes, each);
        for (const Call& call : Calls(static_cast<int>(endpoints.size()))) {
          SCOPED_TRACE(StrCat(tree.options.levels, " levels of radix ", tree.options.radix, ", ", tree.options.rails,
                              " rails, nodes of kind ", kind, ", ", nodes.size(), " of them, ", each,
                              " ranks of each, ", kNcclAlgorithms[static_cast<size_t>(call.algorithm)], ", ",
                              KindName(call.kind), " ", call.root));
          const bool twins = Hold(*topology, endpoints, call);
          EXPECT_TRUE(twins == tree.twins || call.algorithm != NcclAlgorithm::kRing || each != 4);
        }
      }
    }
  }
}

// Ranks that sit in other places of some node, a cable that is slow or failed, other policies.
TEST(RailTwins, AreNoneWhereRailsDiffer) {
  const std::shared_ptr<const Topology> topology = Cluster({.levels = 3, .radix = 8, .rails = 4}, 30, 0);
  std::vector<int> nodes(30);
  std::iota(nodes.begin(), nodes.end(), 0);
  const Call ring{NcclAlgorithm::kRing, Communication::kAllReduce};
  std::vector<int> endpoints = EndpointsOf(nodes, 4);
  EXPECT_TRUE(Hold(*topology, endpoints, ring));
  std::swap(endpoints[41], endpoints[42]);
  EXPECT_FALSE(Hold(*topology, endpoints, ring));
  std::swap(endpoints[41], endpoints[42]);
  for (const LinkFault& fault :
       {LinkFault{.link = "leaf0-pod0.mid1", .bandwidth = 0.5}, LinkFault{.link = "leaf0-pod0.mid1", .failed = true}}) {
    const Degraded degraded = MakeDegraded(topology, {.faults = {fault}}, "network").value();
    EXPECT_FALSE(Hold(*degraded.topology, endpoints, ring));
  }
  const Places places = PlacesOf(*topology, endpoints);
  const Phase phase = ByNode(*MakeNcclRoute(ring.algorithm, {ring.kind, places.ranks(), 1, 0, {}}, places));
  for (const RoutingPolicy policy : kRoutingPolicies)
    EXPECT_EQ(RailTwins::Of(*topology, policy, phase, endpoints).has_value(), policy == RoutingPolicy::kDeterministic);
}

// Traffic that stays on its rail, beside traffic that changes it: their routes are of different lengths. Two that leave
// or arrive on one rail have links in common.
TEST(RailTwins, AreNoneWhereRailsCrossUnlike) {
  const auto topology = Cluster({.radix = 16, .rails = 4}, 13, 0);
  std::vector<int> nodes(13);
  std::iota(nodes.begin(), nodes.end(), 0);
  const std::vector<int> endpoints = EndpointsOf(nodes, 4);
  const NcclRoute route =
      *MakeNcclRoute(NcclAlgorithm::kTree, {Communication::kAllReduce, 52, 1, 0, {}}, PlacesOf(*topology, endpoints));
  using Rails = std::vector<NodeFlows::Rail>;
  for (const auto& [rails, twins] : {std::pair(Rails{{0, 0}, {1, 1}, {2, 2}}, true),
                                     {Rails{{0, 1}, {1, 2}, {2, 0}}, true},
                                     {Rails{{0, 0}, {1, 2}, {2, 1}}, false},
                                     {Rails{{0, 1}, {0, 2}, {1, 3}}, false},
                                     {Rails{{0, 1}, {2, 1}, {3, 2}}, false}}) {
    auto flows = std::make_shared<NodeFlows>(*route.by_node);
    flows->rails = rails;
    Phase phase = ByNode(route);
    phase.flows = FlowList(std::make_shared<const FlowPattern>(std::move(flows)), phase.flows.kinds());
    EXPECT_EQ(RailTwins::Of(*topology, RoutingPolicy::kDeterministic, phase, endpoints).has_value(), twins);
  }
}

// Half a million flows are not listed for their times, nor for what their ranks are occupied with.
TEST(RailTwins, ListNoFlowsOfLargeClusters) {
  for (const char* name : {"dgx-h100-16k", "dgx-h100-100k"}) {
    const auto topology = *BuildTopology(*FindCluster(name), 1024);
    std::vector<int> endpoints(8192);
    std::iota(endpoints.begin(), endpoints.end(), 0);
    const Places places = PlacesOf(*topology, endpoints);
    for (const Call& call : Calls(places.ranks())) {
      const CollectiveShape shape{call.kind, places.ranks(), 1, call.root, {}};
      const Phase phase = ByNode(*MakeNcclRoute(call.algorithm, shape, places));
      Router router(*topology, {});
      PhaseTimes times(*topology, router);
      const PhaseTimes::Part part{phase, endpoints};
      EXPECT_GT(times.Bound({&part, 1}).seconds, 0);
      Schedule schedule{.phases = {phase}, .last_phase = {}};
      EXPECT_GT(EstimateSeconds(schedule, places), 0);
      EXPECT_GT(BusiestBytes(schedule), 0);
      EXPECT_FALSE(phase.flows.pattern()->listed()) << name;
    }
  }
}

}  // namespace rail_twins_test
}  // namespace twofold::sim
