// Library nccl: how routes load devices and NICs, what a call takes, what is chosen, what is refused.
#include "sim/collectives/nccl.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/collectives/kind_loads.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/nccl_tuner.h"

namespace twofold::sim {
namespace nccl_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kGiB = 1 << 30;

// Nodes of `per_node` devices on a switch, `rails` NICs each; 300 GB/s and 1 us in a node, 25 GB/s and 3 us between
// nodes.
Places Cluster(int nodes, int per_node, int rails, bool multicast = false) {
  Places p;
  for (int r = 0; r < nodes * per_node; ++r) {
    p.node.push_back(r / per_node), p.local.push_back(r % per_node), p.rail.push_back(r % per_node * rails / per_node);
  }
  p.nodes = nodes, p.rails = rails, p.multicast_in_node = multicast;
  p.alpha = 3e-6, p.bandwidth = 25e9, p.node_alpha = 1e-6, p.node_bandwidth = 300e9;
  if (nodes == 1) p.alpha = p.node_alpha, p.bandwidth = p.node_bandwidth;
  return p;
}
CollectiveShape Shape(Communication::Kind kind, const Places& places, double bytes) {
  return {.kind = kind, .ranks = places.ranks(), .bytes = bytes, .root = 0, .matrix = {}};
}
NcclRoute RouteOf(NcclAlgorithm a, Communication::Kind kind, const Places& places) {
  return Listed(MakeNcclRoute(a, Shape(kind, places, 1), places).value());
}
std::unique_ptr<Library> Nccl(const std::function<void(cluster::Nccl&)>& change = [](cluster::Nccl&) {}) {
  cluster::Library l;
  l.set_name("nccl");
  change(*l.mutable_nccl());
  return MakeLibrary(l).value();
}
Schedule Plan(const Library& library, Communication::Kind kind, const Places& places, double bytes,
              Choice choice = {}) {
  return library.Plan(Shape(kind, places, bytes), places, choice).value();
}

NcclCosts CostsOf(const char* generation) {
  cluster::Nccl nccl;
  nccl.set_generation(generation);
  return ReadNcclCosts(nccl, false).value();
}

struct Loads {
  std::map<int, double> sent, received;           // by rank, within nodes
  std::map<std::pair<int, int>, double> out, in;  // by node and rail
  double crossings = 0, network_crossings = 0;
};
Loads LoadsOf(const NcclRoute& route, const Places& p) {
  Loads l;
  auto nic = [&](int r) { return std::pair(p.node[static_cast<size_t>(r)], p.rail[static_cast<size_t>(r)]); };
  for (const auto& hops : route.phases) {
    for (const NcclHop& h : hops) {
      EXPECT_EQ(h.between, nic(h.from).first != nic(h.to).first);
      (h.between ? l.out[nic(h.from)] : l.sent[h.from]) += h.share;
      (h.between ? l.in[nic(h.to)] : l.received[h.to]) += h.share;
      l.crossings += h.crossings;
      if (h.between) l.network_crossings += h.crossings;
    }
  }
  return l;
}

// Ring r enters every node at device r. Which rings share a hop is found once for all nodes: each hop has the sum of
// its rings, and none is missing.
TEST(NcclRoutes, RingsBetweenNodesAddUp) {
  for (const auto& [nodes, each] : {std::pair(3, 8), std::pair(2, 4), std::pair(5, 1)}) {
    const int n = nodes * each;
    const NcclRoute route = RouteOf(NcclAlgorithm::kRing, Communication::kAllGather, Cluster(nodes, each, each));
    std::map<std::pair<int, int>, double> expected;
    for (int r = 0; r < each; ++r) {
      const auto at = [&, each = each](int k) { return k % n / each * each + (r + k) % each; };
      for (int k = 0; k < n; ++k) expected[{at(k), at(k + 1)}] += (n - 1.0) / n / each;
    }
    ASSERT_EQ(route.phases.size(), 1u);
    EXPECT_EQ(route.phases[0].size(), expected.size());
    double crossings = 0;
    for (const NcclHop& h : route.phases[0]) {
      const auto known = expected.find({h.from, h.to});
      ASSERT_NE(known, expected.end()) << h.from << " to " << h.to;
      EXPECT_NEAR(h.share, known->second, 1e-12);
      EXPECT_EQ(h.between, h.from / each != h.to / each);
      crossings += h.crossings;
    }
    EXPECT_NEAR(crossings, n - 1, 1e-9) << "a byte goes around one of them";
  }
}

// The same of a broadcast, which ends before its root, and of a reduction, which goes backwards.
TEST(NcclRoutes, ChainsBetweenNodesAddUp) {
  for (const Communication::Kind kind : {Communication::kBroadcast, Communication::kReduce}) {
    for (const auto& [nodes, each, root] : {std::tuple(3, 8, 0), {2, 4, 6}, {5, 1, 3}}) {
      const int n = nodes * each;
      const Places places = Cluster(nodes, each, each);
      CollectiveShape shape = Shape(kind, places, 1);
      shape.root = root;
      std::map<std::pair<int, int>, double> expected;
      for (int r = 0; r < each; ++r) {
        const auto at = [&, each = each](int k) { return k % n / each * each + (r + k) % each; };
        for (int k = 0; k < n; ++k) {
          if (at(k + 1) == root) continue;
          const bool back = kind == Communication::kReduce;
          expected[{at(back ? k + 1 : k), at(back ? k : k + 1)}] += 1.0 / each;
        }
      }
      const NcclRoute route = Listed(MakeNcclRoute(NcclAlgorithm::kRing, shape, places).value());
      ASSERT_EQ(route.phases.size(), 1u);
      EXPECT_EQ(route.phases[0].size(), expected.size());
      double crossings = 0;
      for (const NcclHop& h : route.phases[0]) {
        const auto known = expected.find({h.from, h.to});
        ASSERT_NE(known, expected.end()) << h.from << " to " << h.to;
        EXPECT_NEAR(h.share, known->second, 1e-12);
        EXPECT_EQ(h.between, h.from / each != h.to / each);
        crossings += h.crossings;
      }
      EXPECT_NEAR(crossings, n - 1, 1e-9);
      EXPECT_EQ(route.device_share, 1);
      EXPECT_EQ(route.step_share, 0);
    }
  }
}

// What a collective occupies is added up once for all of its sizes, by a few different loads. It is what its flows one
// by one occupy.
TEST(NcclRoutes, LoadsByKindAreThoseOfFlowsOneByOne) {
  const auto library = Nccl();
  for (const Places& places : {Cluster(9, 8, 8, true), Cluster(6, 4, 2, true), Cluster(16, 1, 1)}) {
    for (const char* algorithm : {"ring", "tree", "nvls_tree"}) {
      for (const double bytes : {1e4, 1e8}) {
        const CollectiveShape shape = Shape(Communication::kAllReduce, places, bytes);
        const absl::StatusOr<Schedule> plan = library->Plan(shape, places, {.algorithm = algorithm});
        if (!plan.ok()) continue;  // one rank a node has no switch
        SCOPED_TRACE(StrCat(algorithm, ", ", places.ranks(), " ranks, ", bytes));
        const auto& pattern = plan->phases[0].flows.pattern();
        ASSERT_NE(pattern, nullptr);
        EXPECT_GT(EstimateSeconds(*plan, places), 0);
        ASSERT_NE(pattern->loads, nullptr);
        EXPECT_LE(pattern->loads->sent.size() + pattern->loads->between.size(), 24u);
        Schedule listed = *plan;
        listed.phases[0].flows.Listed();
        ASSERT_EQ(listed.phases[0].flows.pattern(), nullptr);
        EXPECT_NEAR(BusiestBytes(*plan) / BusiestBytes(listed), 1, 1e-12);
        EXPECT_NEAR(EstimateSeconds(*plan, places) / EstimateSeconds(listed, places), 1, 1e-12);
      }
    }
  }
}

// Cost does not grow with the number of sizes: who sends to whom is listed once for all of them.
TEST(NcclRoutes, SizesOfACollectiveShareItsFlows) {
  const auto library = Nccl();
  const Places places = Cluster(3, 8, 8);
  const Choice ring{.algorithm = "ring", .protocol = "Simple"};
  const Schedule small = Plan(*library, Communication::kAllGather, places, 1e6, ring),
                 large = Plan(*library, Communication::kAllGather, places, 1e9, ring),
                 scatter = Plan(*library, Communication::kReduceScatter, places, 1e8, ring);
  const FlowList &few = small.phases[0].flows, &many = large.phases[0].flows;
  ASSERT_NE(few.pattern(), nullptr);
  EXPECT_EQ(few.pattern(), many.pattern());
  EXPECT_EQ(few.pattern(), scatter.phases[0].flows.pattern());
  EXPECT_EQ(few.size(), 2u * 24);
  EXPECT_LE(few.kinds().size(), 4u) << "in a node and between nodes, of the first ring and of others";
  for (size_t f = 0; f < few.size(); ++f) EXPECT_NEAR(many[f].bytes / few[f].bytes, 1000, 1e-9) << f;
}

TEST(NcclRoutes, ARingSharesItsDataOverAllRails) {
  for (const auto& [nodes, per_node, rails] : {std::tuple(2, 8, 8), {8, 4, 2}, {3, 8, 4}, {5, 2, 1}}) {
    const Places places = Cluster(nodes, per_node, rails);
    const int n = nodes * per_node;
    const Loads l = LoadsOf(RouteOf(NcclAlgorithm::kRing, Communication::kAllReduce, places), places);
    const double times = 2.0 * (n - 1) / n;
    EXPECT_EQ(l.out.size(), static_cast<size_t>(nodes * rails));
    for (const auto& [nic, share] : l.out) EXPECT_NEAR(share, times / rails, 1e-12);
    for (const auto& [nic, share] : l.in) EXPECT_NEAR(share, times / rails, 1e-12);
    EXPECT_NEAR(l.crossings, 2.0 * (n - 1), 1e-9);
    EXPECT_NEAR(l.network_crossings, times * nodes, 1e-9);
  }
}

TEST(NcclRoutes, RingsOfFourLoadAllPairsAlike) {
  const Places places = Cluster(1, 4, 1);
  const NcclRoute route = RouteOf(NcclAlgorithm::kRing, Communication::kAllGather, places);
  ASSERT_EQ(route.phases[0].size(), 12u);
  for (const NcclHop& h : route.phases[0]) EXPECT_NEAR(h.share, 0.75 / 3, 1e-12);
}

TEST(NcclRoutes, ABroadcastEndsBeforeItsRoot) {
  const Places places = Cluster(2, 4, 2);
  const NcclRoute route = RouteOf(NcclAlgorithm::kRing, Communication::kBroadcast, places);
  std::map<int, double> got;
  for (const NcclHop& h : route.phases[0]) got[h.to] += h.share;
  EXPECT_EQ(got.count(0), 0u);
  for (int r = 1; r < 8; ++r) EXPECT_NEAR(got[r], 1, 1e-12) << r;
}

// Every node but a root has one parent in either tree, and no node is inside both.
TEST(NcclRoutes, TwoTreesShareTheInsides) {
  for (int nodes = 2; nodes <= 65; ++nodes) {
    const Places places = Cluster(nodes, 1, 1);
    const NcclRoute route = RouteOf(NcclAlgorithm::kTree, Communication::kAllReduce, places);
    const Loads l = LoadsOf(route, places);
    double most = 0, all = 0;
    for (const auto& [nic, share] : l.in) most = std::max(most, share), all += share;
    EXPECT_NEAR(all, 2 * (nodes - 1), 1e-9) << nodes;  // up and down every edge of two trees of half the data
    EXPECT_LE(most, 2 + 1e-12) << nodes;               // three halves inside one tree, one half as leaf of the other
    EXPECT_LE(l.network_crossings, 2 * (std::bit_width(static_cast<unsigned>(nodes - 1)) + 1)) << nodes;
  }
}

TEST(NcclRoutes, ASwitchThatReducesTakesEachTensorOnce) {
  const Places places = Cluster(1, 8, 1, true);
  for (const auto& [rank, share] :
       LoadsOf(RouteOf(NcclAlgorithm::kNvls, Communication::kAllReduce, places), places).sent) {
    EXPECT_NEAR(share, 1 + 1.0 / 8, 1e-12) << rank;
  }
}

TEST(NcclRoutes, MessagesReachEveryPairOnce) {
  const Places places = Cluster(3, 2, 2);
  std::set<std::pair<int, int>> pairs;
  for (const auto& hops : RouteOf(NcclAlgorithm::kDirect, Communication::kAllToAll, places).phases) {
    for (const NcclHop& h : hops) {
      EXPECT_TRUE(pairs.emplace(h.from, h.to).second);
      EXPECT_NEAR(h.share, 1.0 / 6, 1e-12);
    }
  }
  EXPECT_EQ(pairs.size(), 30u);
}

// By hand: NCCL's base and hops, and bytes over what ring Simple gets of the links.
// Of each pair of a DGX-1V's devices, how many NVLinks it has.
Places CubeMesh(int nodes) {
  Places p = Cluster(nodes, 8, 4);
  p.node_bandwidth = 25e9;
  if (nodes == 1) p.bandwidth = 25e9;
  p.joints.assign(8, std::vector<Places::Joint>(8, {6e9, false}));
  constexpr int kPairs[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                               {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (const auto& [a, b, links] : kPairs)
    p.joints[static_cast<size_t>(a)][static_cast<size_t>(b)] =
        p.joints[static_cast<size_t>(b)][static_cast<size_t>(a)] = {links * 25e9, true};
  return p;
}

TEST(NcclRoutes, RingsFollowTheCablesOfACubeMesh) {
  const Places node = CubeMesh(1);
  std::map<std::pair<int, int>, double> seconds;  // of a byte on each cable
  const NcclRoute ring = RouteOf(NcclAlgorithm::kRing, Communication::kAllGather, node);
  for (const NcclHop& h : ring.phases[0]) {
    const Places::Joint& joint = node.joints[static_cast<size_t>(h.from)][static_cast<size_t>(h.to)];
    EXPECT_TRUE(joint.direct) << h.from << " to " << h.to;
    seconds[{h.from, h.to}] = h.share / joint.bandwidth;
  }
  EXPECT_EQ(seconds.size(), 32u);  // all 16 bundles, both ways, are full
  for (const auto& [pair, s] : seconds) EXPECT_NEAR(s, 7.0 / 8 / 150e9, 1e-21) << pair.first << " to " << pair.second;
}

TEST(NcclRoutes, BetweenNodesAWayOverCablesEndsAtItsNic) {
  const Places places = CubeMesh(3);
  for (const NcclAlgorithm a : {NcclAlgorithm::kRing, NcclAlgorithm::kTree}) {
    const NcclRoute route = RouteOf(a, Communication::kAllReduce, places);
    for (const NcclHop& h : route.phases[0]) {
      const auto local = [&](int rank) { return static_cast<size_t>(places.local[static_cast<size_t>(rank)]); };
      EXPECT_TRUE(h.between || places.joints[local(h.from)][local(h.to)].direct);
    }
    if (a != NcclAlgorithm::kRing) continue;
    const Loads l = LoadsOf(route, places);
    for (const auto* way : {&l.out, &l.in}) {
      EXPECT_EQ(way->size(), 12u);
      for (const auto& [nic, share] : *way) EXPECT_NEAR(share, 2 * 23.0 / 24 / 4, 1e-12);
    }
  }
}

// What `auto` takes is no slower, by NCCL's own estimate, than anything else that NCCL would consider.
TEST(NcclLibrary, AutoTakesNothingThatNcclExpectsToBeSlower) {
  const Places all[] = {
      Cluster(1, 2, 2), Cluster(1, 4, 4), Cluster(1, 8, 8, true),  Cluster(2, 8, 8), Cluster(4, 8, 4, true),
      Cluster(3, 1, 1), CubeMesh(1),      Cluster(16, 8, 8, true), CubeMesh(2),      CubeMesh(5)};
  int held = 0;
  for (const char* generation : {"volta", "ampere", "hopper", "blackwell"}) {
    const auto nccl = Nccl([&](cluster::Nccl& n) { n.set_generation(generation); });
    const NcclCosts costs = CostsOf(generation);
    for (const Places& places : all) {
      const NcclTuner tuner(costs, places);
      for (const auto kind : {Communication::kAllReduce, Communication::kAllGather, Communication::kReduceScatter,
                              Communication::kBroadcast, Communication::kReduce}) {
        for (double bytes = 8; bytes <= 4 * kGiB; bytes *= 16) {
          const CollectiveShape shape = Shape(kind, places, bytes);
          const Schedule chosen = nccl->Plan(shape, places, {}).value();
          for (size_t i = 0; i < kNcclAlgorithms.size(); ++i) {
            for (size_t k = 0; k < kNcclProtocols.size(); ++k) {
              const auto a = static_cast<NcclAlgorithm>(i);
              const auto p = static_cast<NcclProtocol>(k);
              if (!nccl->Plan(shape, places, {std::string(kNcclAlgorithms[i]), std::string(kNcclProtocols[k])}).ok())
                continue;
              const double expected = tuner.Seconds(a, p, kind, bytes);
              if (expected < 0) continue;
              ++held;
              ASSERT_LE(chosen.estimate, expected)
                  << generation << ", " << places.ranks() << " ranks, " << KindName(kind) << " of " << bytes << ": "
                  << chosen.algorithm << " " << chosen.protocol << " against " << kNcclAlgorithms[i] << " "
                  << kNcclProtocols[k];
            }
          }
          ASSERT_GT(chosen.estimate, 0);
        }
      }
    }
  }
  EXPECT_GT(held, 2000);
}

// By hand: base + steps x hop, and the bytes over NCCL's bus bandwidth. 8 Hopper: the search finds 12 channels of 30 of
// the 370.8 GB/s. 16 nodes: NVLS over trees, 8 heads of at most 45.5.
TEST(NcclTuner, ExpectsWhatNcclsModelSays) {
  const NcclCosts hopper = CostsOf("hopper"), ampere = CostsOf("ampere");
  Places node = Cluster(1, 8, 1, true), nodes = Cluster(16, 8, 8, true);
  node.node_bandwidth = node.bandwidth = nodes.node_bandwidth = 450e9, nodes.bandwidth = 50e9;
  const double bytes = 1 << 20;
  using enum NcclAlgorithm;
  using enum NcclProtocol;
  const auto us = [&](const NcclCosts& c, const Places& p, NcclAlgorithm a, NcclProtocol q, Communication::Kind kind) {
    return NcclTuner(c, p).Seconds(a, q, kind, bytes) * 1e6;
  };
  EXPECT_NEAR(us(hopper, node, kRing, kLL, Communication::kAllReduce), 6.6 + 14 * 0.6 + bytes / (141e3 * 8 / 14), 1e-9);
  EXPECT_NEAR(us(hopper, node, kRing, kSimple, Communication::kAllGather), 8.4 + 7 * 3.4 + bytes / (360e3 * 8 / 7),
              1e-9);
  EXPECT_NEAR(us(hopper, node, kNvls, kSimple, Communication::kAllReduce),
              25 + bytes / (8 * 50e3 * 0.85 * 7 / 8 * 2 * 8 / 14), 1e-9);
  EXPECT_NEAR(us(hopper, nodes, kNvlsTree, kSimple, Communication::kAllReduce),
              25 + 2 * 4 * 20.9 + bytes / (8 * 45.5e3 * 128 / 254), 1e-9);
  // A ring between nodes: 112 of 127 steps in nodes, each of three posts in Simple; trees are corrected by size.
  EXPECT_NEAR(us(hopper, nodes, kRing, kSimple, Communication::kAllGather),
              8.4 + 112 * 3.4 + 15 * 14 + bytes / (8 * 45e3 * 128 / 127), 1e-9);
  EXPECT_NEAR(us(ampere, Cluster(1, 8, 1), kTree, kLL, Communication::kAllReduce),
              6.8 + 14 * 0.6 + bytes / (240e3 * 0.92 / 3.8 * 0.5 * 0.5), 1e-9);
  EXPECT_LT(us(ampere, Cluster(1, 8, 1), kNvls, kSimple, Communication::kAllReduce), 0);
  EXPECT_LT(us(hopper, nodes, kPat, kSimple, Communication::kAllGather), 0) << "PAT needs one rank a node";
  EXPECT_NEAR(us(hopper, Cluster(16, 1, 1), kPat, kSimple, Communication::kAllGather),
              8 + 4 * 14 / 3.5 + 16 * 2.8 + bytes / (24e3 * 0.75), 1e-9);
}

// Where published sweeps jump (experiments/studies/collective_sweeps/one_node.csv): the first size of the next way.
TEST(NcclTuner, ChangesItsWayWhereNcclDoes) {
  const struct {
    const char* generation;
    double links;
    int ranks;
    Communication::Kind kind;
    int log2;
    const char* before;
    const char* after;
  } jumps[] = {{"ampere", 300e9, 2, Communication::kAllReduce, 20, "LL", "Simple"},
               {"ampere", 300e9, 4, Communication::kAllGather, 21, "LL", "Simple"},
               {"ampere", 300e9, 8, Communication::kAllGather, 22, "LL", "LL128"},
               {"hopper", 450e9, 2, Communication::kAllGather, 22, "LL", "Simple"},
               {"hopper", 450e9, 8, Communication::kAllReduce, 21, "LL", "Simple"},  // nvls
               {"blackwell", 900e9, 8, Communication::kAllReduce, 22, "LL", "Simple"}};
  for (const auto& j : jumps) {
    Places node = Cluster(1, j.ranks, 1, true);
    node.node_bandwidth = node.bandwidth = j.links;
    const auto nccl = Nccl([&](cluster::Nccl& n) { n.set_generation(j.generation); });
    EXPECT_EQ(Plan(*nccl, j.kind, node, std::exp2(j.log2 - 1)).protocol, j.before) << j.generation << j.ranks;
    EXPECT_EQ(Plan(*nccl, j.kind, node, std::exp2(j.log2)).protocol, j.after) << j.generation << j.ranks;
  }
}

// By hand from src/graph/tuning.cc at v2.8.4-1, on nodes as ABCI's: 8 Ampere, 4 NICs of which NCCL believes 24 GB/s.
TEST(NcclTuner, OldVersionsExpectLess) {
  cluster::Nccl nccl;
  nccl.set_generation("ampere"), nccl.set_version("2.8.4");
  const NcclCosts old = ReadNcclCosts(nccl, false).value();
  nccl.set_version("2.10");
  const NcclCosts later = ReadNcclCosts(nccl, false).value();
  const Places node = Cluster(1, 8, 1), nodes = Cluster(4, 8, 4);
  using enum NcclAlgorithm;
  using enum NcclProtocol;
  const auto us = [](const NcclCosts& c, const Places& p, NcclAlgorithm a, NcclProtocol q, Communication::Kind kind,
                     double bytes) { return NcclTuner(c, p).Seconds(a, q, kind, bytes) * 1e6; };
  const auto sum = Communication::kAllReduce, copy = Communication::kBroadcast;
  const double mib = 1 << 20;
  EXPECT_NEAR(us(old, node, kRing, kLL, sum, mib), 3.6 + 14 * 0.47 + mib / (235e3 / 4 * 8 / 14), 1e-9);
  EXPECT_NEAR(us(old, node, kRing, kLL, copy, mib), 3.6 + 0.47 + mib / (235e3 / 3), 1e-9);
  EXPECT_NEAR(us(old, node, kRing, kSimple, sum, mib), 8.4 + 14 * 3.4 + mib / (235e3 * 8 / 14), 1e-9);
  EXPECT_NEAR(us(old, nodes, kRing, kLL128, sum, mib), 10 + 56 * 1.9 + 6 * 4 + mib / (4 * 16.9e3 * 32 / 62), 1e-9);
  EXPECT_NEAR(us(later, nodes, kRing, kLL128, sum, mib), 10 + 56 * 1.9 + 6 * 4 + mib / (4 * 20e3 * 32 / 62), 1e-9);
  EXPECT_NEAR(us(old, nodes, kRing, kSimple, sum, mib), 1.9 * (8.4 + 56 * 3.4 + 6 * 9.6) + mib / (96e3 * 32 / 62),
              1e-9);
  EXPECT_NEAR(us(old, nodes, kTree, kLL, sum, mib),
              4.4 + 2 * (7 * 0.52 * 1.8 + 2 * 5) + mib / (4 * 16e3 / 3.8 * 0.5 * 0.5), 1e-9);
  EXPECT_NEAR(us(old, nodes, kTree, kLL128, sum, mib),
              4.4 + 2 * (7 * 1.25 + 2 * 8.5) + mib / (4 * 16e3 * 0.915 * 0.5 * 0.6), 1e-9);
  EXPECT_NEAR(us(old, nodes, kTree, kSimple, sum, mib), 2 * 9 * 28 + mib / (4 * 16e3 * 0.5 * 0.5), 1e-9);
  EXPECT_LT(us(old, node, kNvls, kSimple, sum, mib), 0);
  EXPECT_LT(us(old, Cluster(16, 1, 1), kPat, kSimple, Communication::kAllGather, mib), 0) << "PAT came with 2.23";
}

// Channels that begin at different NICs make NCCL count all hops of a chain. The first size in LL128 of a broadcast:
// ABCI's broadcasts (experiments/studies/collective_sweeps/development.csv) change their slope there.
TEST(NcclTuner, CountsTheHopsOfAChainBetweenNodesOfSeveralNics) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_version("2.8.4"), n.set_pat(false); });
  for (const auto& [nodes, log2] : {std::pair(2, 20), {4, 21}, {8, 22}, {16, 23}}) {
    const Places places = Cluster(nodes, 8, 4);
    EXPECT_EQ(Plan(*nccl, Communication::kBroadcast, places, std::exp2(log2 - 1)).protocol, "LL") << nodes;
    EXPECT_EQ(Plan(*nccl, Communication::kBroadcast, places, std::exp2(log2)).protocol, "LL128") << nodes;
  }
  const NcclCosts costs = CostsOf("ampere");
  const auto us = [&](const Places& places, NcclProtocol p) {
    return NcclTuner(costs, places).Seconds(NcclAlgorithm::kRing, p, Communication::kBroadcast, 0) * 1e6;
  };
  EXPECT_NEAR(us(Cluster(4, 8, 4), NcclProtocol::kLL), 6.6 + 32 * 2.7, 1e-9);
  EXPECT_NEAR(us(Cluster(4, 8, 4), NcclProtocol::kSimple), 8.4 + 32 * 14, 1e-9);
  EXPECT_NEAR(us(Cluster(4, 8, 1), NcclProtocol::kLL), 6.6 + 2.7, 1e-9) << "one NIC, one order";
  EXPECT_NEAR(us(Cluster(1, 8, 1), NcclProtocol::kLL), 6.6 + 0.6, 1e-9);
}

TEST(NcclTuner, ChannelsGrowWithTheCall) {
  const NcclCosts costs = CostsOf("hopper");
  Places node = Cluster(1, 8, 8, true);
  node.node_bandwidth = 450e9;
  const NcclTuner tuner(costs, node);
  EXPECT_EQ(tuner.Channels(NcclAlgorithm::kRing, NcclProtocol::kLL, 8), 1);
  EXPECT_EQ(tuner.Channels(NcclAlgorithm::kRing, NcclProtocol::kLL, 5 * 512 * 8 * 8), 5);  // threads x 8 bytes x ranks
  EXPECT_EQ(tuner.Channels(NcclAlgorithm::kRing, NcclProtocol::kSimple, 5 * 512 * 64), 5);
  EXPECT_EQ(tuner.Channels(NcclAlgorithm::kRing, NcclProtocol::kSimple, kGiB), 24);
  EXPECT_EQ(tuner.Channels(NcclAlgorithm::kNvls, NcclProtocol::kSimple, 8), 16);
  // Messages among 8: four channels of the 32, more once a channel has over 16 MiB (send_recv of h100_cluster doubles
  // its bandwidth there).
  for (const auto& [mib, channels] : {std::pair{32, 4}, {64, 4}, {128, 8}, {256, 16}, {512, 32}, {1024, 32}})
    EXPECT_EQ(tuner.Message(mib * 1048576.0, false).channels, channels) << mib;
  EXPECT_EQ(tuner.Message(1 << 16, false).protocol, NcclProtocol::kSimple);
  EXPECT_EQ(tuner.Message(1 << 14, false).protocol, NcclProtocol::kLL);
  // Between nodes one channel each 14 GB/s of a NIC, fewer among many ranks.
  Places far = Cluster(10, 8, 8, true);
  far.bandwidth = 50e9;
  EXPECT_EQ(NcclTuner(costs, far).Message(kGiB, true).channels, 1);
}

// Base and hops of the generation; the last part is copied alone.
TEST(NcclLibrary, ACallTakesItsLatencyAndItsBytes) {
  const auto nccl = Nccl();
  const Places places = Cluster(1, 8, 1);
  const Schedule s = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"ring", "Simple"});
  ASSERT_EQ(s.phases.size(), 1u);
  const std::vector<double> routes(s.phases[0].flows.size(), places.node_alpha);
  EXPECT_NEAR(PhaseLatency(s.phases[0], routes, 0), (23.7 + 14 * 6.1) * 1e-6 + kGiB / 8 / 459e9, 1e-12);
  for (const Flow& f : s.phases[0].flows) EXPECT_NEAR(f.bytes, 14.0 / 8 * kGiB / 0.775, 1);
}

// Between nodes: 96 % of NICs; 72 us a hop, of which the route brings 3 and the transfer of a step hides what it takes.
// A hop in a node takes at least the three posts of the next message.
TEST(NcclLibrary, TransfersHideHopsBetweenNodes) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_post_us(2.5); });
  const Places two = Cluster(2, 4, 4);
  for (const double bytes : {8.0, 8e6, kGiB}) {
    const Schedule far = Plan(*nccl, Communication::kAllReduce, two, bytes, {"ring", "Simple"});
    std::vector<double> latencies;
    for (const Flow& f : far.phases[0].flows) {
      const bool between = two.node[static_cast<size_t>(f.from)] != two.node[static_cast<size_t>(f.to)];
      latencies.push_back(between ? two.alpha : two.node_alpha);
      EXPECT_NEAR(f.bytes, between ? 14.0 / 8 / 4 * bytes / 0.96 : 14.0 / 8 * 3 / 4 * bytes / 0.775, 1);
    }
    const double step = bytes / 8 / 4 / (0.96 * 25e9), hop = std::max(3e-6, 72e-6 - step);
    EXPECT_NEAR(PhaseLatency(far.phases[0], latencies, 0), (23.7 + 10.5 * 7.5) * 1e-6 + bytes / 8 / 459e9 + 3.5 * hop,
                1e-12);
  }
}

// 64 ranks on Slingshot: 63 steps, of which 15 between nodes, each of one channel; by NCCL's constants of Simple.
TEST(NcclLibrary, ManyStepsQueueUpOnSlingshot) {
  Places places = Cluster(16, 4, 2);
  places.alpha = 2e-6;
  const auto seconds = [&](const char* network, double bytes) {
    const auto nccl = Nccl([&](cluster::Nccl& n) { n.set_network(network), n.set_post_us(2); });
    const Schedule s = Plan(*nccl, Communication::kAllGather, places, bytes, {"ring", "LL"});
    return EstimateSeconds(s, places);
  };
  EXPECT_NEAR(seconds("slingshot", 64), (8.9 + 48 * 6 + 15 * 14) * 1e-6, 1e-6);
  EXPECT_LT(seconds("infiniband", 64), 200e-6);
}

TEST(NcclLibrary, ProtocolsTradeLatencyForBandwidth) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_generation("hopper"); });
  Places places = Cluster(1, 8, 1, true);
  places.node_bandwidth = places.bandwidth = 450e9;
  EXPECT_EQ(Plan(*nccl, Communication::kAllReduce, places, 8).protocol, "LL");
  EXPECT_EQ(Plan(*nccl, Communication::kAllReduce, places, kGiB).algorithm, "nvls");
  EXPECT_EQ(Plan(*nccl, Communication::kAllGather, places, kGiB).algorithm, "ring");
  EXPECT_EQ(Plan(*nccl, Communication::kAllGather, places, kGiB).protocol, "Simple");
  EXPECT_EQ(Plan(*nccl, Communication::kAllToAll, places, kGiB).algorithm, "direct");
  EXPECT_EQ(Plan(*nccl, Communication::kAllToAll, places, kGiB).protocol, "Simple");
  EXPECT_EQ(Plan(*nccl, Communication::kAllToAll, places, 8).protocol, "LL");
  EXPECT_EQ(Plan(*nccl, Communication::kBarrier, places, 0).protocol, "LL");
  const Schedule ll = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"ring", "LL"});
  for (const Flow& f : ll.phases[0].flows) {
    EXPECT_NEAR(f.bytes, 14.0 / 8 * kGiB / 0.361, 1);
    EXPECT_NEAR(f.rate * 0.361, 24 * 12.3e9, 1);  // payload of all channels
  }
}

// 2.3 times what is in chunks at once goes through before the pipeline is full: channels x devices x 64 KiB of a call
// below 1 GiB, 128 KiB above.
TEST(NcclLibrary, ThePipelineOfNvlsFillsFirst) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_generation("hopper"); });
  const Places places = Cluster(1, 8, 1, true);
  for (const auto& [bytes, first] :
       {std::pair{2 * kGiB, 16.0 * 8 * (128 << 10)}, {kGiB / 2, 16.0 * 8 * (64 << 10)}, {1e6, 1e6}}) {
    const Schedule s = Plan(*nccl, Communication::kAllReduce, places, bytes, {"nvls"});
    EXPECT_NEAR(s.phases[0].flows[0].bytes, (bytes + 2.3 * first) * 9 / 8 / 0.673, 1);
    EXPECT_NEAR(PhaseLatency(s.phases[0], std::vector<double>(8, places.node_alpha), 0), 14.7e-6 + places.node_alpha,
                1e-12);
  }
}

// Over two nodes a tree has half a ring's bytes; over more its inner nodes carry as much as a ring.
TEST(NcclLibrary, ATreeReachesMostOfARingsShareOfANic) {
  const auto nccl = Nccl();
  const Places two = Cluster(2, 1, 1), four = Cluster(4, 1, 1);
  const auto carried = [&](const Places& places) {
    std::map<int, double> out;
    const Schedule tree = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"tree", "Simple"});
    for (const Flow& f : tree.phases[0].flows) out[f.from] += f.bytes;
    double most = 0;
    for (const auto& [rank, bytes] : out) most = std::max(most, bytes);
    return most;
  };
  EXPECT_NEAR(carried(two), kGiB / 0.96 / 0.92, 2);
  EXPECT_NEAR(carried(four), 2 * kGiB / 0.96 / 0.92, 2);
}

// Successive broadcasts: the second one's hops are hidden.
TEST(NcclLibrary, ABroadcastBehindAnotherHidesItsHops) {
  const auto nccl = Nccl();
  const Places places = Cluster(1, 8, 1);
  CollectiveShape shape = Shape(Communication::kBroadcast, places, 64);
  const auto latency = [&] {
    const Schedule s = nccl->Plan(shape, places, {}).value();
    return PhaseLatency(s.phases[0], std::vector<double>(s.phases[0].flows.size(), places.node_alpha), 0);
  };
  const double alone = latency();
  shape.follows = true;
  EXPECT_NEAR(latency(), 8.9e-6, 1e-12);
  EXPECT_NEAR(alone, 8.9e-6 + 7 * 1e-6 + 0, 0.1e-6);  // a hop is no shorter than its wire
}

TEST(NcclLibrary, AFileOverridesConstants) {
  const auto nccl = Nccl([](cluster::Nccl& n) {
    n.set_nvlink_efficiency(0.5), n.set_call_us(30), n.set_local_gbytes_per_second(100);
    auto& l = *n.add_latency();
    l.set_algorithm("ring"), l.set_protocol("Simple"), l.set_base_us(100), l.set_channel_gbytes_per_second(3);
  });
  const Places places = Cluster(1, 2, 1);
  const Schedule s = Plan(*nccl, Communication::kAllGather, places, kGiB, {"ring", "Simple"});
  EXPECT_NEAR(s.phases[0].seconds, 130e-6 + kGiB / 2 / 100e9, 1e-12);
  EXPECT_NEAR(s.phases[0].flows[0].bytes, kGiB / 2 / 0.5, 1e-3);
  EXPECT_NEAR(s.phases[0].flows[0].rate * 0.5, 24 * 3e9, 1);
}

// Up to 2.9 every channel but the first reads its work over PCIe: 2.1 us once, and 1 us each.
TEST(NcclLibrary, ChannelsOfOldVersionsBeginOneAfterTheOther) {
  const Places places = Cluster(1, 8, 1);
  const double bytes = 4 * 512 * 8 * 8;  // four channels of a ring in LL
  const auto begin = [&](const char* version, double size, Choice choice) {
    const auto nccl = Nccl([&](cluster::Nccl& n) { n.set_version(version); });
    return Plan(*nccl, Communication::kAllReduce, places, size, std::move(choice)).phases[0].seconds;
  };
  const Choice ring{"ring", "LL"};
  EXPECT_NEAR(begin("2.8.4", bytes, ring) - begin("2.10", bytes, ring), 2.1e-6 + 3 * 1e-6, 1e-12);
  EXPECT_NEAR(begin("2.8.4", bytes / 4, ring), begin("2.10", bytes / 4, ring), 1e-12) << "one channel";
  EXPECT_NEAR(begin("2.9", kGiB, {"ring", "Simple"}) - begin("2.12.7", kGiB, {"ring", "Simple"}), 25.1e-6, 1e-12);
}

TEST(NcclLibrary, KnowsVersions) {
  for (const char* right : {"2.8", "2.8.4", "2.17.1", "2.18", "2.29.2", "2.40"}) {
    cluster::Nccl nccl;
    nccl.set_version(right);
    EXPECT_TRUE(ReadNcclCosts(nccl, false).ok()) << right;
  }
  for (const char* wrong : {"2.7.8", "1.3", "2", "2.", "2.8.", "2.8x", "2.8.4-1", "new", "3.0"}) {
    cluster::Nccl nccl;
    nccl.set_version(wrong);
    const absl::Status status = ReadNcclCosts(nccl, false).status();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("library.nccl.version"), HasSubstr(wrong), HasSubstr("2.8.4")));
  }
  cluster::Nccl of_rccl;
  of_rccl.set_version("2.8");
  EXPECT_THAT(ReadNcclCosts(of_rccl, true).status().message(), HasSubstr("leave it out"));
}

TEST(NcclLibrary, ShortMessagesBetweenNodesMayCostMore) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_short_message_bytes(256), n.set_short_message_us(10); });
  const Places places = Cluster(2, 2, 1);
  const double few = Plan(*nccl, Communication::kAllToAll, places, 4 * 255).phases[0].seconds;
  EXPECT_NEAR(few - Plan(*nccl, Communication::kAllToAll, places, 4 * 256).phases[0].seconds, 2 * 10e-6, 1e-9);
}

// Two nodes of two ranks and one NIC: four messages pass each NIC each way, and take its 39 % of Slingshot; the links
// behind it carry no more than the payload.
TEST(NcclLibrary, MessagesShareWhatTheirNicReaches) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_network("slingshot"); });
  const Schedule s = Plan(*nccl, Communication::kAllToAll, Cluster(2, 2, 1), kGiB);
  int between = 0;
  for (const Flow& f : s.phases[0].flows) {
    if (f.from / 2 == f.to / 2) continue;
    ++between;
    EXPECT_NEAR(f.bytes, kGiB / 4, 1e-3);
    EXPECT_NEAR(f.rate, 0.39 * 25e9 / 4, 1);
  }
  EXPECT_EQ(between, 8);
}

// Among two ranks a message has all of the node's channels for one peer, 16; the last chunk is copied alone.
TEST(NcclLibrary, AMessageTakesItsChannels) {
  const auto nccl = Nccl();
  Places places = Cluster(1, 2, 1);
  EXPECT_EQ(nccl->Message(8, places).protocol, "LL");
  const Schedule large = nccl->Message(kGiB, places);
  EXPECT_EQ(large.protocol, "Simple");
  ASSERT_EQ(large.phases.size(), 1u);
  EXPECT_NEAR(large.phases[0].flows[0].bytes, kGiB / 0.673, 1);
  EXPECT_NEAR(PhaseLatency(large.phases[0], std::vector<double>{0}, 0), 14.1e-6 + (512 << 10) / 20e9, 1e-12);
  const Places all = Cluster(1, 8, 1);
  places.group = &all;
  EXPECT_NEAR(nccl->Message(1 << 20, places).phases[0].flows[0].rate * 0.673, 4 * 20e9, 1);
}

// 8 devices of which every two have a cable: all 56 carry the same.
TEST(NcclRoutes, RingsOverPairsLoadEveryCable) {
  Places node = Cluster(1, 8, 8), nodes = Cluster(2, 8, 8);
  node.pair_cables = nodes.pair_cables = true;
  for (const auto kind : {Communication::kAllReduce, Communication::kAllGather}) {
    const NcclRoute route = RouteOf(NcclAlgorithm::kRing, kind, node);
    ASSERT_EQ(route.phases[0].size(), 56u);
    const double times = kind == Communication::kAllReduce ? 14.0 / 8 : 7.0 / 8;
    for (const NcclHop& h : route.phases[0]) EXPECT_NEAR(h.share, times / 7, 1e-12);
    EXPECT_NEAR(LoadsOf(route, node).crossings, times * 8, 1e-9);
  }
  std::map<std::pair<int, int>, double> shares;  // within the nodes, of paths that zigzag
  const NcclRoute between = RouteOf(NcclAlgorithm::kRing, Communication::kAllGather, nodes);
  for (const NcclHop& h : between.phases[0]) {
    if (!h.between) shares[{h.from, h.to}] += h.share;
  }
  ASSERT_EQ(shares.size(), 2 * 56u);
  for (const auto& [pair, share] : shares) EXPECT_NEAR(share, 15.0 / 16 / 8, 1e-12);
}

// 6 nodes of one rank: parts go 1, 2 and 4 on (of the last 2 parts).
TEST(NcclRoutes, PatDoublesItsDistances) {
  const Places places = Cluster(6, 1, 1);
  const NcclRoute route = RouteOf(NcclAlgorithm::kPat, Communication::kAllGather, places);
  std::map<int, double> out;
  for (const NcclHop& h : route.phases[0]) out[(h.to - h.from + 6) % 6] = h.share;
  EXPECT_EQ(out, (std::map<int, double>{{1, 1.0 / 6}, {2, 2.0 / 6}, {4, 2.0 / 6}}));
  EXPECT_NEAR(LoadsOf(route, places).crossings, 3, 1e-12);
  EXPECT_FALSE(
      MakeNcclRoute(NcclAlgorithm::kPat, Shape(Communication::kAllGather, Cluster(2, 4, 4), 1), Cluster(2, 4, 4)).ok());
}

// Up to 16 MiB RCCL's 8 devices may send to each other at once: two hops.
TEST(RcclLibrary, SmallReductionsGoToAllAtOnce) {
  cluster::Library l;
  l.set_name("rccl");
  const auto rccl = MakeLibrary(l).value();
  Places node = Cluster(1, 8, 8);
  node.pair_cables = true, node.node_bandwidth = node.bandwidth = 64e9, node.node_alpha = 0.5e-6;
  const Schedule small = Plan(*rccl, Communication::kAllReduce, node, 1024);
  EXPECT_EQ(small.algorithm, "direct");
  EXPECT_EQ(small.protocol, "LL");
  EXPECT_NEAR(PhaseLatency(small.phases[0], std::vector<double>(56, node.node_alpha), 0), (12 + 2 * 0.8) * 1e-6, 1e-9);
  EXPECT_EQ(Plan(*rccl, Communication::kAllReduce, node, kGiB).algorithm, "ring");
  EXPECT_THAT(
      std::string(rccl->Plan(Shape(Communication::kAllReduce, node, kGiB), node, {"direct"}).status().message()),
      HasSubstr("up to 16 MiB"));
  node.pair_cables = false;
  EXPECT_EQ(Plan(*rccl, Communication::kAllReduce, node, 1024).algorithm, "ring");
}

TEST(RcclLibrary, TakesWhatCostsLeast) {
  cluster::Library l;
  l.set_name("rccl");
  const auto rccl = MakeLibrary(l).value();
  EXPECT_EQ(rccl->name(), "rccl");
  Places node = Cluster(1, 8, 8);
  node.pair_cables = true, node.node_bandwidth = node.bandwidth = 64e9;
  for (double bytes = 8; bytes <= kGiB; bytes *= 8) {
    const double chosen = rccl->Plan(Shape(Communication::kAllReduce, node, bytes), node, {}).value().estimate;
    for (const char* protocol : {"LL", "LL128", "Simple"}) {
      EXPECT_LE(chosen,
                rccl->Plan(Shape(Communication::kAllReduce, node, bytes), node, {"ring", protocol}).value().estimate);
    }
  }
  // 48 of each link's 64 GB/s, all seven at once.
  EXPECT_NEAR(Plan(*rccl, Communication::kAllReduce, node, 8 * kGiB).estimate, 14.0 / 8 / 7 * 8 * kGiB / 48e9,
              0.02 * 46e-3);
}

std::string Refusal(const Library& library, Communication::Kind kind, const Places& places, Choice choice) {
  const auto schedule = library.Plan(Shape(kind, places, kGiB), places, choice);
  EXPECT_FALSE(schedule.ok());
  return schedule.ok() ? "" : std::string(schedule.status().message());
}

TEST(NcclLibrary, RefusesWhatCannotRun) {
  const auto nccl = Nccl();
  const Places node = Cluster(1, 8, 1), switched = Cluster(1, 8, 1, true), two = Cluster(2, 8, 8, true);
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, node, {"nvls"}),
              HasSubstr("the nodes have no switch that reduces"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, two, {"nvls"}), HasSubstr("use nvls_tree"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, switched, {"nvls_tree"}), HasSubstr("use nvls within one"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllGather, node, {"tree"}), HasSubstr("all_gather"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, node, {"direct"}), HasSubstr("all_reduce"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllToAll, node, {"ring"}), HasSubstr("use direct"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, switched, {"nvls", "LL"}), HasSubstr("protocol LL"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllToAll, node, {"auto", "LL128"}), HasSubstr("LL128"));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, node, {"rong"}),
              AllOf(HasSubstr("rong"), HasSubstr("nvls_tree")));
  EXPECT_THAT(Refusal(*nccl, Communication::kAllReduce, node, {"auto", "LL64"}),
              AllOf(HasSubstr("LL64"), HasSubstr("LL128")));
}

TEST(NcclLibrary, ReadsItsFileStrictly) {
  const auto refusal = [](const std::function<void(cluster::Nccl&)>& change) {
    cluster::Library l;
    l.set_name("nccl");
    change(*l.mutable_nccl());
    const auto library = MakeLibrary(l);
    EXPECT_FALSE(library.ok());
    return library.ok() ? "" : std::string(library.status().message());
  };
  EXPECT_THAT(refusal([](auto& n) { n.set_generation("fermi"); }),
              AllOf(HasSubstr("library.nccl.generation = \"fermi\""), HasSubstr("hopper")));
  EXPECT_THAT(refusal([](auto& n) { n.set_channels(0); }),
              HasSubstr("library.nccl.channels = 0: must be from 1 to 64"));
  EXPECT_THAT(refusal([](auto& n) { n.set_network_efficiency(1.5); }),
              HasSubstr("library.nccl.network_efficiency = 1.5"));
  EXPECT_THAT(refusal([](auto& n) { n.set_nvls_efficiency(0); }), HasSubstr("library.nccl.nvls_efficiency = 0"));
  EXPECT_THAT(refusal([](auto& n) { n.set_call_us(-1); }), HasSubstr("library.nccl.call_us = -1"));
  EXPECT_THAT(refusal([](auto& n) { n.set_generation("cdna3"); }), HasSubstr("use one of volta"));
  EXPECT_THAT(refusal([](auto& n) { n.set_network("atm"); }),
              AllOf(HasSubstr("library.nccl.network = \"atm\""), HasSubstr("slingshot")));
  EXPECT_THAT(refusal([](auto& n) { n.set_post_us(-1); }), HasSubstr("library.nccl.post_us = -1"));
  EXPECT_THAT(refusal([](auto& n) { n.set_local_gbytes_per_second(0); }),
              HasSubstr("library.nccl.local_gbytes_per_second = 0"));
  EXPECT_THAT(refusal([](auto& n) {
                auto& latency = *n.add_latency();
                latency.set_algorithm("ring"), latency.set_protocol("LL"), latency.set_channel_gbytes_per_second(0);
              }),
              HasSubstr("library.nccl.latency[0].channel_gbytes_per_second = 0"));
  EXPECT_THAT(refusal([](auto& n) { n.set_short_message_bytes(-1); }),
              HasSubstr("library.nccl.short_message_bytes = -1"));
  EXPECT_THAT(refusal([](auto& n) { n.add_latency()->set_algorithm("rong"); }),
              HasSubstr("library.nccl.latency[0].algorithm = \"rong\""));
  EXPECT_THAT(refusal([](auto& n) { n.add_latency()->set_algorithm("ring"); }),
              HasSubstr("library.nccl.latency[0].protocol = \"\""));
  EXPECT_THAT(refusal([](auto& n) {
                auto& l = *n.add_latency();
                l.set_algorithm("ring"), l.set_protocol("LL"), l.set_network_us(-3);
              }),
              HasSubstr("library.nccl.latency[0].network_us = -3"));
}

TEST(NcclLibrary, BarriersAreItsOwnWhateverIsForced) {
  const Places places = Cluster(1, 8, 8);
  const Schedule own = Plan(*Nccl(), Communication::kBarrier, places, 0);
  for (const Choice& forced : {Choice{"direct", "auto"}, Choice{"auto", "Simple"}}) {
    const Schedule barrier = Plan(*Nccl(), Communication::kBarrier, places, 0, forced);
    EXPECT_EQ(barrier.algorithm, own.algorithm);
    EXPECT_EQ(barrier.protocol, own.protocol);
  }
}

// Where wires are longer than the library's hops, a hop is its wire.
TEST(NcclLibrary, NoHopIsShorterThanItsWire) {
  Places places = Cluster(4, 8, 8);
  places.alpha = 100e-6, places.node_alpha = 50e-6;
  for (const char* algorithm : {"ring", "tree"}) {
    for (const Phase& phase : Plan(*Nccl(), Communication::kAllReduce, places, 8, {algorithm, "auto"}).phases) {
      for (const Flow& f : phase.flows) EXPECT_GE(f.hop_seconds, 0) << algorithm;
    }
  }
}

}  // namespace nccl_test
}  // namespace twofold::sim
