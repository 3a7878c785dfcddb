// fabric.simulated.solver: SimGrid and the program's own solver share links alike, on every cluster of the catalogue.
#include <sstream>
#include <string>
#include <vector>

#include "backends/simulated/fabric.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace solver_test {

constexpr double kMostDifference = 1e-6;

spec::Spec SpecOf(const std::string& cluster, int ranks, const std::string& more) {
  spec::Spec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      StrCat("parallel { dp: ", ranks, " } fabric { simulated { cluster: \"", cluster, "\" folding: OFF ", more,
             " } }"),
      &spec));
  return spec;
}

// The times at which each rank ends each operation. Halves of the ranks, pairs of halves and all ranks communicate at
// the same time and get in each other's way; ranks are late by different times.
std::string EveryCollective(RankContext& ctx) {
  ProcessGroup& world = ctx.world();
  const auto half = world.SplitEvenly(world.size() / 2, ProcessGroup::Pattern::kConsecutive, "half");
  const auto pair = world.SplitEvenly(2, ProcessGroup::Pattern::kStrided, "pair");
  const int64_t each = 60'000, ranks = world.size();
  Tensor all = Floats(ctx, ranks * each), other = Floats(ctx, ranks * each), one = Floats(ctx, each),
         halves = Floats(ctx, half->size() * each), part = Floats(ctx, each), sum = Floats(ctx, 2'000'000),
         sent = Floats(ctx, 500'000), received = Floats(ctx, 500'000);
  std::vector<Work> works;
  Busy(ctx, 1e-5 * ctx.rank());
  ctx.device().compute().Synchronize();
  const int next = (ctx.rank() + 1) % world.size(), previous = (ctx.rank() + world.size() - 1) % world.size();
  const auto wait = [&](std::string& times) {
    for (Work& work : works) {
      work.Wait();
      StrAppend(&times, Number(ctx.clock().Now().value()), " ");
    }
    works.clear();
  };
  std::string times;
  works.push_back(world.AllReduce(all));
  works.push_back(half->AllGather(halves, part));
  works.push_back(pair->AllReduce(sum));
  wait(times);
  works.push_back(half->ReduceScatter(part, halves));
  works.push_back(world.AllToAll(other, all));
  works.push_back(pair->Broadcast(sum, 1));
  wait(times);
  works.push_back(world.AllGather(all, one));
  works.push_back(half->Gather(halves, part, 0));
  const P2p messages[] = {{P2p::kSend, sent, next, 0}, {P2p::kRecv, received, previous, 0}};
  works.push_back(pair->Reduce(sum, ReduceOp::kSum, 0));
  wait(times);
  works.push_back(world.Batch(messages));
  works.push_back(half->Scatter(part, halves, 1));
  wait(times);
  works.push_back(world.ReduceScatter(one, all));
  works.push_back(half->AllReduce(halves));
  works.push_back(world.Barrier());
  wait(times);
  return times;
}

RankResults Times(const std::string& cluster, int ranks, const std::string& more) {
  const auto fabric = MakeSimulatedFabric(SpecOf(cluster, ranks, more));
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  if (!fabric.ok()) return {};
  RunResult result = (*fabric)->Run(ranks, EveryCollective);
  EXPECT_TRUE(result.status.ok()) << result.status;
  return std::move(result.results);
}

std::vector<double> Numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<double> numbers;
  for (double n = 0; in >> n;) numbers.push_back(n);
  return numbers;
}

void ExpectAlike(const std::string& cluster, int ranks, const std::string& more = "") {
  SCOPED_TRACE(StrCat(cluster, " ", more));
  const RankResults fluid = Times(cluster, ranks, more),
                    simgrid = Times(cluster, ranks, StrCat(more, " solver: SIMGRID"));
  ASSERT_EQ(fluid.size(), static_cast<size_t>(ranks));
  ASSERT_EQ(simgrid.size(), fluid.size());
  for (size_t r = 0; r < fluid.size(); ++r) {
    const std::vector<double> ours = Numbers(fluid[r]), reference = Numbers(simgrid[r]);
    ASSERT_EQ(ours.size(), 14U);
    ASSERT_EQ(reference.size(), ours.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      ASSERT_GT(reference[i], 0);
      EXPECT_NEAR(ours[i] / reference[i], 1, kMostDifference) << "rank " << r << ", operation " << i;
    }
  }
}

// As many ranks as fill two nodes; at least 8, on as many nodes as that takes.
TEST(Solver, IsSimGridsOnEveryCluster) {
  int clusters = 0;
  for (const ClusterInfo& info : ListClusters()) {
    const auto c = FindCluster(info.name);
    ASSERT_TRUE(c.ok()) << c.status();
    if (c->has_shared_memory_host()) continue;
    const absl::StatusOr<int> devices = DevicesPerNode(*c);
    ASSERT_TRUE(devices.ok()) << devices.status();
    const int64_t ranks = std::min<int64_t>(std::clamp(2 * *devices, 8, 16), MostNodes(*c) * *devices);
    if (ranks % 4 != 0) continue;  // one device alone
    ExpectAlike(info.name, static_cast<int>(ranks));
    ++clusters;
  }
  EXPECT_GT(clusters, 10);
}

constexpr int kSpreadRanks = 16;  // SimGrid takes minutes for 32

// Where flows meet beyond the nodes, on each kind of network and with each policy whose routes do not depend on loads.
TEST(Solver, IsSimGridsUnderOtherRoutings) {
  for (const char* cluster : {"dgx-a100", "polaris"}) {
    for (const char* routing : {"deterministic", "ecmp", "spray"})
      ExpectAlike(cluster, kSpreadRanks, StrCat("nodes: 48 placement { policy: RANDOM } routing: '", routing, "'"));
  }
  // SimGrid takes minutes for 16 paths of more flows.
  ExpectAlike("polaris", 4, "nodes: 8 placement { ranks_per_node: 1 } routing: 'valiant'");
}

TEST(Solver, IsToldInTheNotes) {
  const auto fabric = MakeSimulatedFabric(SpecOf("dgx-a100", 2, "solver: SIMGRID"));
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(2, [](RankContext&) { return std::string(); });
  EXPECT_THAT(result.notes,
              testing::Contains(testing::HasSubstr("SimGrid divides the links' bandwidth, flow by flow")));
}

}  // namespace solver_test
}  // namespace twofold
