// Routes of library nccl: how they load devices, cables and NICs.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/kind_loads.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/nccl_tuner.h"
#include "tests/unit/sim/nccl_clusters.h"

namespace twofold::sim {
namespace nccl_routes_test {

using namespace nccl_clusters;

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

// `expected`: by the two ends of a hop, the share of the bytes that crosses it. Nodes have `each` ranks.
void CheckHops(const NcclRoute& route, const std::map<std::pair<int, int>, double>& expected, int nodes, int each) {
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
  EXPECT_NEAR(crossings, nodes * each - 1, 1e-9) << "a byte goes around one of the rings";
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
    CheckHops(route, expected, nodes, each);
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
      CheckHops(route, expected, nodes, each);
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

// Nodes with 8 and 4 ranks, or 4 and 8, or the last 4 and 8: four rings and trees, on the rails that both have.
TEST(NcclRoutes, UnequalNodesShareTheRailsOfTheSmallest) {
  constexpr struct { int first, skipped; } kGroups[] = {{8, 0}, {4, 0}, {4, 4}};
  for (const auto& [first, skipped] : kGroups) {
    Places p = Cluster(2, 8, 8);
    const auto leave = [&, skip = skipped](int node, int ranks) {
      const int begin = node == 0 ? skip : 0;
      for (int r = p.ranks() - 1; r >= 0; --r) {
        const auto i = static_cast<size_t>(r);
        if (p.node[i] != node || (p.local[i] >= begin && p.local[i] < begin + ranks)) continue;
        for (std::vector<int>* of : {&p.node, &p.local, &p.rail}) of->erase(of->begin() + r);
      }
    };
    leave(0, first), leave(1, 12 - first);
    for (int r = 0; r < p.ranks(); ++r)
      if (p.node[static_cast<size_t>(r)] == 0) p.local[static_cast<size_t>(r)] -= skipped;
    ASSERT_EQ(p.ranks(), 12);
    ASSERT_EQ(p.RanksPerNode(), 0);
    const auto check = [&](NcclAlgorithm algorithm, Communication::Kind kind, double bytes) {
      const Loads l = LoadsOf(RouteOf(algorithm, kind, p), p);
      ASSERT_EQ(l.out.size(), 8u);  // four of each node
      ASSERT_EQ(l.in.size(), 8u);
      for (const auto& loads : {l.out, l.in}) {
        for (const auto& [nic, load] : loads) EXPECT_NEAR(load, bytes / 4, 1e-12) << nic.first << " " << nic.second;
      }
      for (const auto& [nic, load] : l.in) EXPECT_TRUE(nic.second / 4 == skipped / 4) << "rings enter on common rails";
    };
    check(NcclAlgorithm::kRing, Communication::kAllGather, 11.0 / 12);
    check(NcclAlgorithm::kRing, Communication::kAllReduce, 22.0 / 12);
    check(NcclAlgorithm::kTree, Communication::kAllReduce, 1);
    EXPECT_EQ(NcclTuner(CostsOf("hopper"), p).heads(), 4);
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

// Nodes of different numbers of ranks, which are in no order.
Places Ragged(int nodes) {
  Places p = Cluster(1, 1, 2);
  p.node.clear(), p.local.clear(), p.rail.clear(), p.nodes = nodes;
  for (int local = 0; local < 3; ++local) {
    for (int v = 0; v < nodes; ++v)
      if (local < 1 + v % 3) p.node.push_back(v), p.local.push_back(local), p.rail.push_back((v + local) % 2);
  }
  return p;
}

// Every pair of ranks once, in phases: first those of a node, then 16 other nodes at a time, whose distances are spread
// over all.
std::vector<std::vector<std::pair<int, int>>> PairsInPhases(const Places& p) {
  const size_t nodes = static_cast<size_t>(p.nodes), phases = nodes == 1 ? 1 : (nodes - 1 + 15) / 16;
  std::vector<std::vector<int>> ranks(nodes);
  for (int r = 0; r < p.ranks(); ++r) ranks[static_cast<size_t>(p.node[static_cast<size_t>(r)])].push_back(r);
  std::vector<std::vector<std::pair<int, int>>> all(phases);
  for (size_t phase = 0; phase < phases; ++phase) {
    for (size_t v = 0; v < nodes; ++v) {
      for (size_t shift = 0; shift < nodes; ++shift) {
        if (shift == 0 ? phase > 0 : (shift - 1) % phases != phase) continue;
        for (const int from : ranks[v]) {
          for (const int to : ranks[(v + shift) % nodes])
            if (from != to) all[phase].emplace_back(from, to);
        }
      }
    }
  }
  return all;
}

// An all-to-all whose flows are not listed against the same one whose flows are, one by one: the same messages in the
// same order, kinds, loads and estimates.
TEST(NcclRoutes, AnAllToAllNeedNotListItsFlows) {
  const auto library = Nccl();
  const auto different = [](const std::vector<KindLoads::Load>& loads) {
    return std::set<KindLoads::Load>(loads.begin(), loads.end());
  };
  for (const Places& places :
       {Cluster(3, 2, 2), Cluster(1, 8, 1), Cluster(41, 4, 2), Cluster(17, 1, 1), CubeMesh(3), Ragged(4), Ragged(21)}) {
    for (const double bytes : {1e3, 1e9}) {
      SCOPED_TRACE(StrCat(places.nodes, " nodes, ", places.ranks(), " ranks, ", bytes));
      places.routes = {};  // else the flows that this listed for the other size are kept
      const Schedule plan = Plan(*library, Communication::kAllToAll, places, bytes);
      const double estimate = EstimateSeconds(plan, places), busiest = BusiestBytes(plan);
      const auto pairs = PairsInPhases(places);
      ASSERT_EQ(plan.phases.size(), pairs.size());
      Schedule listed = plan;
      for (size_t p = 0; p < pairs.size(); ++p) {
        const FlowList& flows = plan.phases[p].flows;
        ASSERT_NE(flows.pattern(), nullptr);
        const double first = flows.first_bytes(), last = flows.last_bytes();
        std::vector<std::pair<int, int>> visited;
        flows.ForEach([&](const Flow& f) { visited.emplace_back(f.from, f.to); });
        EXPECT_EQ(visited, pairs[p]);
        EXPECT_FALSE(flows.pattern()->listed()) << "nobody needs them one by one";
        EXPECT_EQ(flows.size(), pairs[p].size());
        EXPECT_EQ(flows[0].bytes, first);
        EXPECT_EQ(flows[flows.size() - 1].bytes, last);
        std::set<int> kinds;
        for (size_t f = 0; f < flows.size(); ++f) {
          EXPECT_EQ(std::pair(flows[f].from, flows[f].to), pairs[p][f]);
          kinds.insert(flows.pattern()->flows()[f].kind);
        }
        EXPECT_EQ(kinds.size(), flows.kinds().size()) << "no kind is without flows";
        const FlowPattern one_by_one(flows.pattern()->flows());
        const KindLoads &own = KindLoadsOf(*flows.pattern(), flows.kinds().size(), places),
                        &all = KindLoadsOf(one_by_one, flows.kinds().size(), places);
        EXPECT_EQ(different(own.sent), different(all.sent));
        EXPECT_EQ(different(own.within), different(all.within));
        EXPECT_EQ(different(own.between), different(all.between));
        for (size_t k = 0; k < flows.kinds().size(); ++k) {
          EXPECT_EQ(own.kinds[k].flows, all.kinds[k].flows);
          EXPECT_EQ(own.kinds[k].between, all.kinds[k].between);
        }
        listed.phases[p].flows.Listed();
      }
      EXPECT_EQ(plan.last_phase, LastPhases(listed.phases, places.ranks(), [](const Phase& p) { return p.flows; }));
      EXPECT_NEAR(BusiestBytes(listed) / busiest, 1, 1e-12);
      EXPECT_NEAR(EstimateSeconds(listed, places) / estimate, 1, 1e-12);
    }
  }
}

// Messages of one size are planned by the loads of NICs and of links in a node: as for uneven ones, of which each has
// its own hop.
TEST(NcclRoutes, AnAllToAllCostsWhatEqualMessagesCost) {
  const auto library = Nccl();
  for (Places places : {Cluster(3, 2, 2), Cluster(1, 8, 1), Cluster(41, 4, 2), CubeMesh(3), CubeMesh(1)}) {
    for (const double bytes : {1e5, 1e9}) {
      SCOPED_TRACE(StrCat(places.nodes, " nodes, ", places.ranks(), " ranks, ", bytes));
      const auto ranks = static_cast<size_t>(places.ranks());
      CollectiveShape uneven = Shape(Communication::kAllToAllV, places, bytes);
      uneven.matrix.assign(ranks, std::vector<double>(ranks, bytes / places.ranks()));
      const Schedule want = library->Plan(uneven, places, {}).value(),
                     got = Plan(*library, Communication::kAllToAll, places, bytes);
      EXPECT_EQ(got.protocol, want.protocol);
      EXPECT_NEAR(got.estimate / want.estimate, 1, 1e-12);
      ASSERT_EQ(got.phases.size(), want.phases.size());
      for (size_t p = 0; p < got.phases.size(); ++p) {
        const FlowList &own = got.phases[p].flows, &other = want.phases[p].flows;
        EXPECT_NEAR(got.phases[p].seconds, want.phases[p].seconds, 1e-12 * want.phases[p].seconds);
        ASSERT_EQ(own.size(), other.size());
        for (size_t f = 0; f < own.size(); ++f) {
          EXPECT_NEAR(own[f].bytes / other[f].bytes, 1, 1e-12);
          EXPECT_NEAR(other[f].rate / own[f].rate, 1, 1e-12);
        }
      }
    }
  }
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

}  // namespace nccl_routes_test
}  // namespace twofold::sim
