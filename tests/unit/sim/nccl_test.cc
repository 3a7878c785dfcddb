// Libraries nccl and rccl: what RCCL chooses, what may be forced, what is refused.
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/collectives/library.h"
#include "tests/unit/sim/nccl_clusters.h"

namespace twofold::sim {
namespace nccl_test {

using namespace nccl_clusters;
using testing::AllOf;
using testing::HasSubstr;

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

}  // namespace nccl_test
}  // namespace twofold::sim
