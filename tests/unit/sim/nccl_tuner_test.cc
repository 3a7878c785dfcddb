// What library nccl chooses, by NCCL's own estimates and those of its versions.
#include <cmath>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_tuner.h"
#include "tests/unit/sim/nccl_clusters.h"

namespace twofold::sim {
namespace nccl_tuner_test {

using namespace nccl_clusters;
using testing::AllOf;
using testing::HasSubstr;

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
  // From 2.12 to 2.18 an all_reduce around n nodes counts 2 n hops between them.
  nccl.set_version("2.12.12");
  const NcclCosts middle = *ReadNcclCosts(nccl, false);
  EXPECT_NEAR(us(middle, nodes, kRing, kLL128, sum, mib), 10 + 54 * 1.9 + 8 * 4 + mib / (4 * 20e3 * 32 / 62), 1e-9);
  EXPECT_NEAR(us(middle, nodes, kRing, kSimple, sum, mib), 1.9 * (8.4 + 54 * 3.4 + 8 * 28) + mib / (96e3 * 32 / 62),
              1e-9);
  // With one rank on each node, a ring in LL128 is expected to reach 0.7 of what it does in Simple.
  const auto mib_more = [&](const NcclCosts& c, NcclProtocol q) {
    const Places alone = Cluster(4, 1, 1);
    return us(c, alone, kRing, q, copy, 32 * mib) - us(c, alone, kRing, q, copy, 31 * mib);
  };
  EXPECT_NEAR(mib_more(middle, kSimple), 0.7 * mib_more(middle, kLL128), 1e-9);
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

TEST(NcclLibrary, KnowsVersions) {
  for (const char* right : {"2.8", "2.8.4", "2.17.1", "2.18", "2.29.2", "2.40"}) {
    cluster::Nccl nccl;
    nccl.set_version(right);
    EXPECT_TRUE(ReadNcclCosts(nccl, false).ok()) << right;
  }
  for (const char* wrong : {"2.7.8", "1.3", "2", "2.", "2.8.", "2.-8", "2.8.-4", "2.8x", "2.8.4-1", "new", "3.0"}) {
    cluster::Nccl nccl;
    nccl.set_version(wrong);
    const absl::Status status = ReadNcclCosts(nccl, false).status();
    EXPECT_THAT(status.message(), AllOf(HasSubstr("library.nccl.version"), HasSubstr(wrong), HasSubstr("2.8.4")));
  }
  cluster::Nccl of_rccl;
  of_rccl.set_version("2.8");
  EXPECT_THAT(ReadNcclCosts(of_rccl, true).status().message(), HasSubstr("leave it out"));
}

}  // namespace nccl_tuner_test
}  // namespace twofold::sim
