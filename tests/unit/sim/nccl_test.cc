// Library nccl: how routes load devices and NICs, what a call takes, what is chosen, what is refused.
#include "sim/collectives/nccl.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"

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
  return MakeNcclRoute(a, Shape(kind, places, 1), places).value();
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

// What `auto` takes is no slower, by NCCL's model, than anything that it could be told to take.
TEST(NcclLibrary, AutoTakesNothingThatItsModelCallsSlower) {
  const Places all[] = {Cluster(1, 2, 2),
                        Cluster(1, 4, 4),
                        Cluster(1, 8, 8, true),
                        Cluster(2, 8, 8),
                        Cluster(4, 8, 4, true),
                        Cluster(3, 1, 1),
                        Cluster(16, 8, 8, true),
                        CubeMesh(1),
                        CubeMesh(2),
                        CubeMesh(5)};
  int held = 0;
  for (const char* generation : {"volta", "ampere", "hopper", "blackwell"}) {
    const auto nccl = Nccl([&](cluster::Nccl& n) { n.set_generation(generation); });
    for (const Places& places : all) {
      for (int kind = Communication::kAllReduce; kind < Communication::kBarrier; ++kind) {
        if (kind == Communication::kAllToAllV) continue;
        for (double bytes = 8; bytes <= 4 * kGiB; bytes *= 16) {
          const CollectiveShape shape = Shape(static_cast<Communication::Kind>(kind), places, bytes);
          const Schedule chosen = nccl->Plan(shape, places, {}).value();
          for (std::string_view algorithm : nccl->algorithms()) {
            for (std::string_view protocol : nccl->protocols()) {
              const auto forced = nccl->Plan(shape, places, {std::string(algorithm), std::string(protocol)});
              if (!forced.ok()) continue;
              ++held;
              ASSERT_LE(chosen.estimate, forced->estimate)
                  << generation << ", " << places.ranks() << " ranks, " << KindName(shape.kind) << " of " << bytes
                  << ": " << chosen.algorithm << " " << chosen.protocol << " against " << algorithm << " " << protocol;
              const bool same = algorithm == chosen.algorithm && protocol == chosen.protocol;
              ASSERT_TRUE(!same || chosen.estimate == forced->estimate);
            }
          }
          ASSERT_GT(chosen.estimate, 0);
        }
      }
    }
  }
  EXPECT_GT(held, 2000);
}

TEST(NcclLibrary, ACallTakesItsLatencyAndItsBytes) {
  const auto nccl = Nccl();
  const Places places = Cluster(1, 8, 1);
  const Schedule s = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"ring", "Simple"});
  ASSERT_EQ(s.phases.size(), 1u);
  const std::vector<double> routes(s.phases[0].flows.size(), places.node_alpha);
  EXPECT_NEAR(PhaseLatency(s.phases[0], routes, 0), (8.4 + 14 * 3.4) * 1e-6, 1e-12);
  for (const Flow& f : s.phases[0].flows) EXPECT_NEAR(f.bytes, 14.0 / 8 * kGiB / 0.8, 1);
}

// Between nodes: 96 % of NICs; 14 us a hop, of which the route brings 3 and the transfer of a step hides what it takes.
TEST(NcclLibrary, TransfersHideHopsBetweenNodes) {
  const auto nccl = Nccl();
  const Places two = Cluster(2, 4, 4);
  for (const double bytes : {8.0, 8e6, kGiB}) {
    const Schedule far = Plan(*nccl, Communication::kAllReduce, two, bytes, {"ring", "Simple"});
    std::vector<double> latencies;
    for (const Flow& f : far.phases[0].flows) {
      const bool between = two.node[static_cast<size_t>(f.from)] != two.node[static_cast<size_t>(f.to)];
      latencies.push_back(between ? two.alpha : two.node_alpha);
      EXPECT_NEAR(f.bytes, between ? 14.0 / 8 / 4 * bytes / 0.96 : 14.0 / 8 * 3 / 4 * bytes / 0.8, 1);
    }
    const double step = bytes / 8 / 4 / (0.96 * 25e9), hop = std::max(3e-6, 14e-6 - step);
    EXPECT_NEAR(PhaseLatency(far.phases[0], latencies, 0), (8.4 + 10.5 * 3.4) * 1e-6 + 3.5 * hop, 1e-12);
  }
}

TEST(NcclLibrary, ProtocolsTradeLatencyForBandwidth) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_generation("hopper"); });
  const Places places = Cluster(1, 8, 1, true);
  EXPECT_EQ(Plan(*nccl, Communication::kAllReduce, places, 8).protocol, "LL");
  EXPECT_EQ(Plan(*nccl, Communication::kAllReduce, places, kGiB).algorithm, "nvls");
  EXPECT_EQ(Plan(*nccl, Communication::kAllGather, places, kGiB).algorithm, "ring");
  EXPECT_EQ(Plan(*nccl, Communication::kAllGather, places, kGiB).protocol, "Simple");
  EXPECT_EQ(Plan(*nccl, Communication::kAllToAll, places, kGiB).algorithm, "direct");
  EXPECT_EQ(Plan(*nccl, Communication::kBarrier, places, 0).protocol, "LL");
  const Schedule ll = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"ring", "LL"});
  for (const Flow& f : ll.phases[0].flows) {
    EXPECT_NEAR(f.bytes, 14.0 / 8 * kGiB / 0.824 / 0.5, 1);  // half of a line is flags
    EXPECT_NEAR(f.rate * 0.824 * 0.5, 141e9, 1);             // of payload
  }
  const Places far = Cluster(16, 8, 8, true);
  EXPECT_EQ(Plan(*nccl, Communication::kAllReduce, far, 8).algorithm, "tree");
}

// Channels x devices x 128 KiB go through before the pipeline is full; a smaller tensor as a whole.
TEST(NcclLibrary, ThePipelineOfNvlsFillsFirst) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_generation("hopper"), n.set_channels(16); });
  const Places places = Cluster(1, 8, 1, true);
  for (const auto& [bytes, first] : {std::pair{kGiB, 16.0 * 8 * (128 << 10)}, {1e6, 1e6}}) {
    const Schedule s = Plan(*nccl, Communication::kAllReduce, places, bytes, {"nvls"});
    EXPECT_NEAR(s.phases[0].flows[0].bytes, (bytes + first) * 9 / 8 / (0.824 * 0.85), 1);
    EXPECT_NEAR(PhaseLatency(s.phases[0], std::vector<double>(8, places.node_alpha), 0), 25e-6, 1e-12);
  }
}

TEST(NcclLibrary, ATreeReachesHalfOfARingsShareOfANic) {
  const auto nccl = Nccl();
  const Places places = Cluster(2, 1, 1);
  const Schedule s = Plan(*nccl, Communication::kAllReduce, places, kGiB, {"tree", "Simple"});
  for (const Flow& f : s.phases[0].flows) EXPECT_NEAR(f.bytes, kGiB / 0.96 / 0.46, 2);
}

TEST(NcclLibrary, AFileOverridesConstants) {
  const auto nccl = Nccl([](cluster::Nccl& n) {
    n.set_nvlink_efficiency(0.5), n.set_call_us(30);
    auto& l = *n.add_latency();
    l.set_algorithm("ring"), l.set_protocol("LL"), l.set_base_us(100);
  });
  const Places places = Cluster(1, 2, 1);
  const Schedule s = Plan(*nccl, Communication::kAllGather, places, 64, {"ring", "LL"});
  EXPECT_NEAR(s.phases[0].seconds, 130e-6, 1e-12);
  EXPECT_NEAR(s.phases[0].flows[0].bytes, 32 / 0.5 / 0.5, 1e-9);
}

TEST(NcclLibrary, ShortMessagesBetweenNodesMayCostMore) {
  const auto nccl = Nccl([](cluster::Nccl& n) { n.set_short_message_bytes(256), n.set_short_message_us(10); });
  const Places places = Cluster(2, 2, 1);
  const double few = Plan(*nccl, Communication::kAllToAll, places, 4 * 255).phases[0].seconds;
  EXPECT_NEAR(few - Plan(*nccl, Communication::kAllToAll, places, 4 * 256).phases[0].seconds, 2 * 10e-6, 1e-12);
}

TEST(NcclLibrary, AMessageIsAHopOfARing) {
  const auto nccl = Nccl();
  const Places places = Cluster(1, 2, 1);
  EXPECT_EQ(nccl->Message(8, places).protocol, "LL");
  const Schedule large = nccl->Message(kGiB, places);
  EXPECT_EQ(large.protocol, "Simple");
  ASSERT_EQ(large.phases.size(), 1u);
  EXPECT_NEAR(large.phases[0].flows[0].bytes, kGiB / 0.8, 1);
  EXPECT_NEAR(PhaseLatency(large.phases[0], std::vector<double>{places.node_alpha}, 0), (8.4 + 3.4) * 1e-6, 1e-12);
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
