// What a spec says of the simulated network: where ranks sit, how flows are routed, what is wrong with links, who is
// slow, and which messages wait for their receiver.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/fabric.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace network_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kDevice[] = R"(
  name: "test"
  device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
           matmul_efficiency: 1 memory_efficiency: 1 }
)";
// 1 GB/s and 1 ms, as times can be said by heart; of the dragonfly no time but that of bytes.
constexpr char kStar[] = "star { hosts: 64 link_gbytes_per_second: 1 latency_us: 1000 }";
constexpr char kDragonfly[] = R"(
  machines { nodes: 72 node { single {} devices: 1 nics: 0 }
             network { dragonfly { p: 2 a: 4 h: 2 } link_gbytes_per_second: 1 cable_us: 0 switch_us: 0 nic_us: 0 } }
)";

class NetworkTest : public testing::Test {
 protected:
  // `fabric`: fields of spec.Simulated.
  spec::Spec Spec(int ranks, const std::string& topology, const std::string& fabric = "") {
    path_ = StrCat(testing::TempDir(), "/", testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
                   getpid(), ".textproto");
    std::ofstream(path_) << kDevice << topology;
    spec::Spec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        StrCat("parallel { dp: ", ranks, " } fabric { simulated { cluster: \"", path_, "\" ", fabric, " } }"), &spec));
    return spec;
  }
  RunResult Run(const spec::Spec& spec, const RankFunction& fn) {
    auto fabric = MakeSimulatedFabric(spec);
    EXPECT_TRUE(fabric.ok()) << fabric.status();
    if (!fabric.ok()) return {fabric.status(), {}, {}};
    RunResult result = (*fabric)->Run(static_cast<int>(spec.parallel().dp()), fn);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result;
  }
  std::string Error(const spec::Spec& spec) { return std::string(MakeSimulatedFabric(spec).status().message()); }
  ~NetworkTest() override { std::filesystem::remove(path_); }

 private:
  std::string path_;
};

std::string Now(RankContext& ctx) {
  ctx.device().compute().Synchronize();
  return Number(ctx.clock().Now().value());
}
// Even ranks send 0.1 GB to the next one; alone that takes 0.1 s and the latency.
std::string SendToTheNext(RankContext& ctx) {
  Tensor t = Floats(ctx, 25'000'000);
  (ctx.rank() % 2 == 0 ? ctx.world().Send(t, ctx.rank() + 1) : ctx.world().Recv(t, ctx.rank() - 1)).Wait();
  return Now(ctx);
}

// ---- Stragglers ----

TEST_F(NetworkTest, EveryoneWaitsForTheStraggler) {
  auto step = [](RankContext& ctx) {
    Busy(ctx, 0.1);
    ctx.device().compute().Synchronize();
    ctx.world().Barrier().Wait();  // two rounds of 1 ms
    return Now(ctx);
  };
  EXPECT_THAT(Run(Spec(4, kStar, "folding: OFF"), step).results, testing::Each("0.102"));
  const RunResult slow = Run(Spec(4, kStar, "stragglers { rank: 2 factor: 3 }"), step);
  EXPECT_THAT(slow.results, testing::Each("0.302"));
  EXPECT_THAT(slow.notes, Contains("rank 2's operations take 3 times as long"));
  EXPECT_THAT(slow.notes, Contains("ranks are folded: ranks 0, 2 stand for 1 to 3 each"));
  EXPECT_THAT(Error(Spec(2, kStar, "stragglers { rank: 2 factor: 3 }")),
              HasSubstr("stragglers[0].rank must be 0 to 1 (got 2); there are 2 ranks"));
}

// ---- Faults ----

TEST_F(NetworkTest, DegradedLinksAreSlowerAndTold) {
  EXPECT_THAT(Run(Spec(4, kStar), SendToTheNext).results, testing::Each("0.101"));
  const RunResult slow =
      Run(Spec(4, kStar, "network { faults { link: 'h1.up' bandwidth: 0.25 latency_us: 500 } }"), SendToTheNext);
  EXPECT_THAT(slow.results, ElementsAre("0.4015", "0.4015", "0.101", "0.101"));
  EXPECT_THAT(slow.notes, Contains("the network is degraded: link h1.up (and its reverse, h1.down) at 0.25 of the "
                                   "bandwidth, with 500 µs more latency"));
  EXPECT_THAT(Run(Spec(4, kStar, "network { background: 0.5 }"), SendToTheNext).results, testing::Each("0.201"));
}

TEST_F(NetworkTest, WrongFaultsAreRefused) {
  EXPECT_THAT(
      Error(Spec(4, kStar, "network { faults { link: 'h1.upp' failed: true } }")),
      HasSubstr("fabric.simulated.network.faults[0].link: \"h1.upp\": this star has no such link; did you mean h1.up"));
  EXPECT_THAT(
      Error(Spec(4, kStar, "network { faults { link: 'h1.up' failed: true } }")),
      HasSubstr(
          "fabric.simulated.network.faults: every route from h0 to h1 (endpoints 0 and 1) crosses a failed link"));
}

// ---- Placement and routing ----

TEST_F(NetworkTest, PlacementDecidesWhatIsShared) {
  EXPECT_THAT(Run(Spec(4, kDragonfly), SendToTheNext).results, testing::Each("0.1"));  // on one switch, on another
  // Nodes 0 and 2 are in group 0, 8 and 10 in group 1: one cable for both.
  const RunResult apart = Run(Spec(4, kDragonfly, "placement { policy: HOSTS hosts: [0, 8, 2, 10] }"), SendToTheNext);
  EXPECT_THAT(apart.results, testing::Each("0.2"));
  EXPECT_THAT(apart.notes, Contains("ranks are placed on nodes 0, 8, 2, 10"));
  // Groups in turn: 0 -> 1, 2 -> 3 between groups 0, 1, 2, 3: a cable each.
  EXPECT_THAT(Run(Spec(4, kDragonfly, "placement { policy: BY_GROUP }"), SendToTheNext).results, testing::Each("0.1"));
  EXPECT_THAT(Error(Spec(4, kDragonfly, "placement { policy: HOSTS hosts: [0, 72, 2, 10] }")),
              HasSubstr("fabric.simulated.placement.hosts[1]: 72: there is no such node; use 0 to 71"));
  EXPECT_THAT(Error(Spec(73, kDragonfly)), HasSubstr("73 ranks do not fit cluster test with 72 nodes of one device"));
  EXPECT_THAT(Error(Spec(73, kDragonfly)), Not(HasSubstr("a fat tree grows")));
  spec::Spec on_fat_tree = Spec(17, kDragonfly, "nodes: 2");
  on_fat_tree.mutable_fabric()->mutable_simulated()->set_cluster("dgx-h100");
  EXPECT_THAT(Error(on_fat_tree), HasSubstr("or more nodes (a fat tree grows: fabric.simulated.nodes: 3)"));
  EXPECT_THAT(Error(Spec(4, kDragonfly, "nodes: 3")), HasSubstr("4 ranks do not fit cluster test with 3 nodes"));
}

TEST_F(NetworkTest, RoutingIsTheSpecsOrTheClusters) {
  const std::string apart = "placement { policy: HOSTS hosts: [0, 8, 2, 10] } ";
  const double minimal = std::stod(Run(Spec(4, kDragonfly, apart), SendToTheNext).results[0]);
  for (bool clusters : {false, true}) {
    const RunResult adaptive = Run(clusters ? Spec(4, StrCat(kDragonfly, "routing: 'adaptive'"), apart)
                                            : Spec(4, kDragonfly, apart + "routing: 'adaptive'"),
                                   SendToTheNext);
    EXPECT_LT(std::stod(adaptive.results[0]), 0.9 * minimal);
    EXPECT_THAT(adaptive.notes, Contains("routing is adaptive, over at most 16 paths per flow, seed 1"));
  }
}

// ---- Sites ----

// 0.1 GB/s and 30 ms between sites: a tenth of what a host's link has.
constexpr char kSites[] = "sites { count: 2 between_gbps: 0.8 latency_ms: 30 } folding: OFF ";

TEST_F(NetworkTest, RanksOfASiteShareItsWideAreaLink) {
  auto across = [](RankContext& ctx) {
    Tensor t = Floats(ctx, 25'000'000);
    (ctx.rank() < 2 ? ctx.world().Send(t, ctx.rank() + 2) : ctx.world().Recv(t, ctx.rank() - 2)).Wait();
    return Now(ctx);
  };
  EXPECT_THAT(Run(Spec(4, kStar, kSites), SendToTheNext).results, testing::Each("0.101"));
  const RunResult far = Run(Spec(4, kStar, kSites), across);
  EXPECT_THAT(far.results, testing::Each("2.031"));  // 0.2 GB over one link
  EXPECT_THAT(far.notes, Contains("ranks are divided among 2 sites of 2, joined by 0.8 Gb/s per site and 30 ms; groups "
                                  "that cross sites: dp"));
  const RunResult slower =
      Run(Spec(4, kStar, StrCat(kSites, "network { faults { link: 's1.wan.down' bandwidth: 0.5 } }")), across);
  EXPECT_THAT(slower.results, testing::Each("4.031"));
  EXPECT_THAT(Error(Spec(3, kStar, kSites)), HasSubstr("fabric.simulated.sites.count: 2 does not divide the 3 ranks"));
  EXPECT_THAT(Error(Spec(130, kStar, kSites)), HasSubstr("65 ranks per site do not fit cluster test with 64 hosts"));
}

// A ring in rank order enters and leaves each site once, so that every one of its 2 (N - 1) rounds sends 1/N of the
// bytes over each wide-area link. What a rank sums in one round it sends in the next: every second hop is within a
// site.
TEST_F(NetworkTest, ARingOverSitesRunsAtTheWideAreaRate) {
  auto sum = [](RankContext& ctx) {
    Tensor t = Floats(ctx, 10'000'000);
    ctx.world().AllReduce(t).Wait();
    return Now(ctx);
  };
  const RunResult ring = Run(Spec(4, kStar, StrCat(kSites, "algorithm: 'ring'")), sum);
  for (const std::string& seconds : ring.results)
    EXPECT_NEAR(std::stod(seconds), 6 * 0.01e9 / 0.1e9 + 3 * (0.031 + 0.001), 1e-6);
}

TEST_F(NetworkTest, TheSameSpecGivesTheSameBytes) {
  auto run = [this](int seed) {
    const std::string fabric = absl::StrFormat(
        "routing: 'adaptive' placement { policy: RANDOM seed: %d } stragglers { rank: 3 factor: 1.5 } "
        "network { jitter: 0.5 background: 0.1 seed: %d faults { link: '*' latency_us: 5 } }",
        seed, seed);
    return Run(Spec(16, kDragonfly, fabric),
               [](RankContext& ctx) {
                 Tensor t = Floats(ctx, 1'000'000);
                 Busy(ctx, 0.01);
                 std::string times;
                 for (int step = 0; step < 2; ++step) {
                   ctx.world().AllReduce(t).Wait();
                   StrAppend(&times, Now(ctx), " ");
                 }
                 return StrCat(times, SendToTheNext(ctx));
               })
        .results;
  };
  const RankResults first = run(1);
  EXPECT_EQ(first, run(1));
  EXPECT_NE(first, run(2));
}

TEST_F(NetworkTest, ProtocolsAreTheLibrarys) {
  EXPECT_THAT(Error(Spec(4, kStar, "protocol: 'LL'")),
              HasSubstr("fabric.simulated.protocol: \"LL\": library ideal has no protocols; use auto"));
  EXPECT_THAT(Error(Spec(4, kStar, "algorithm: 'nvls_tree'")),
              HasSubstr("fabric.simulated.algorithm: \"nvls_tree\": library ideal does not have it"));
}

TEST_F(NetworkTest, TheIntervalHasWhatTheLibrarysTimesAreOffBy) {
  const auto spread = [this](int ranks, const std::string& catalogue) {
    spec::Spec spec = Spec(ranks, kStar);
    if (!catalogue.empty()) spec.mutable_fabric()->mutable_simulated()->set_cluster(catalogue);
    return Run(spec,
               [](RankContext& ctx) {
                 const Range off = ctx.uncertainty().communication;
                 return StrCat(off.low, " to ", off.high);
               })
        .results[0];
  };
  EXPECT_EQ(spread(8, "dgx-h100"), "0.91 to 1.11");
  EXPECT_EQ(spread(16, "dgx-h100"), "0.89 to 1.38") << "between nodes";
  EXPECT_EQ(spread(16, ""), "1 to 1") << "ideal is compared with no measurement";
}

// ---- Messages ----

class MessagesTest : public NetworkTest {
 protected:
  const std::string cluster_ = StrCat(kStar, "library { name: 'open_mpi' open_mpi { eager_bytes: 1000 } }");
};

// Rank 0 sends at once, rank 1 comes after 0.5 s; when each is done with `n` floats.
TEST_F(MessagesTest, SmallOnesLeaveBeforeTheirReceiverIsThere) {
  auto late = [this](int64_t n, int source) {
    return Run(Spec(2, cluster_),
               [n, source](RankContext& ctx) {
                 Tensor t = Floats(ctx, n);
                 if (ctx.rank() == 1) {
                   Busy(ctx, 0.5);
                   ctx.device().compute().Synchronize();
                 }
                 (ctx.rank() == 0 ? ctx.world().Send(t, 1) : ctx.world().Recv(t, source)).Wait();
                 return Now(ctx);
               })
        .results;
  };
  for (int source : {0, kAnySource}) {
    const RankResults eager = late(250, source), rendezvous = late(251, source);
    EXPECT_THAT(eager, ElementsAre(Number(1e-6), "0.5"));  // its bytes have left; they are there already
    EXPECT_THAT(rendezvous,
                ElementsAre(Number(0.5 + 2e-3 + 1.004e-6), Number(0.5 + 3e-3 + 1.004e-6)));  // asked for first
  }
}

TEST_F(MessagesTest, WhoIsThereFirstWaitsForTheMessage) {
  const RunResult result = Run(Spec(2, cluster_), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 250);
    if (ctx.rank() == 0) {
      Busy(ctx, 0.2);
      ctx.device().compute().Synchronize();
    }
    (ctx.rank() == 0 ? ctx.world().Send(t, 1) : ctx.world().Recv(t, 0)).Wait();
    return Now(ctx);
  });
  EXPECT_THAT(result.results, ElementsAre(Number(0.2 + 1e-6), Number(0.2 + 1e-3 + 1e-6)));
}

// One after the other leaves as soon as the one before has, not when it has come.
TEST_F(MessagesTest, ManySmallOnesAreOnTheirWayAtOnce) {
  const RunResult result = Run(Spec(2, cluster_), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 250);
    for (int i = 0; i < 100; ++i) (ctx.rank() == 0 ? ctx.world().Send(t, 1) : ctx.world().Recv(t, 0)).Wait();
    return Now(ctx);
  });
  EXPECT_THAT(result.results, ElementsAre(Number(100e-6), Number(100e-6 + 1e-3)));
}

// A sender that went on may use its tensor for something else; messages stay in order.
TEST_F(MessagesTest, WhatWasSentIsReceived) {
  const RunResult result = Run(Spec(2, cluster_, "data: REAL"), [](RankContext& ctx) {
    Device& device = ctx.device();
    Tensor t = Floats(ctx, 1);
    std::string received;
    for (float value : {7.f, 9.f, 11.f}) {
      if (ctx.rank() == 0) {
        device.Launch(device.compute(), ops::Fill{t, value});
        ctx.world().Send(t, 1).Wait();
      } else {
        if (value == 7.f) {
          Busy(ctx, 0.1);
          device.compute().Synchronize();
        }
        ctx.world().Recv(t, 0).Wait();
        StrAppend(&received, device.Item(t, {}), " ");
      }
    }
    return received;
  });
  EXPECT_EQ(result.results[1], "7 9 11 ");
}

TEST_F(MessagesTest, NobodyNeedsToReceiveWhatHasLeft) {
  const RunResult result = Run(Spec(2, cluster_), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 250);
    if (ctx.rank() == 0) ctx.world().Send(t, 1).Wait();
    return Now(ctx);
  });
  EXPECT_THAT(result.results, ElementsAre(Number(1e-6), "0"));
}

}  // namespace network_test
}  // namespace twofold
