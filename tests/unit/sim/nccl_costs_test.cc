// What a call of library nccl takes: its latency, its hops and the bytes that links carry.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sim/collectives/schedule.h"
#include "tests/unit/sim/nccl_clusters.h"

namespace twofold::sim {
namespace nccl_costs_test {

using namespace nccl_clusters;

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

}  // namespace nccl_costs_test
}  // namespace twofold::sim
