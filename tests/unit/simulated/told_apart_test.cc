// Which ranks are told apart, so that no other rank stands for them.
#include <array>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"
#include "tests/unit/simulated/hybrid_job.h"

namespace twofold {
namespace told_apart_test {

// Ranks that differ only in sums that the first of them takes, too, are one class, if nobody else is on these links.
TEST_F(SimulatedTest, OneRankStandsForThoseThatTakeFewerSums) {
  constexpr char kPcieTree[] = R"(
    name: "pcie"
    device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
             matmul_efficiency: 1 memory_efficiency: 1 }
    machines {
      nodes: 2
      node { pcie_tree { devices_per_switch: 2 } devices: 4 nics: 4 pcie_gbytes_per_second: 4 pcie_us: 30 }
      network { star {} link_gbytes_per_second: 1 cable_us: 50 switch_us: 20 nic_us: 60 }
    }
  )";
  using Lists = std::vector<std::vector<int>>;
  // In each of `apart`, the first rank sums over its group of `near`; then all of `apart` sum.
  const auto step = [](Lists near, Lists apart) {
    return [near, apart](RankContext& ctx) {
      const auto sums = ctx.world().Partition(near, "sums"), all = ctx.world().Partition(apart, "all");
      std::vector<int> kinds(apart[0].size());
      kinds[0] = 1;
      all->RanksDifferOver(*sums, kinds, "shards differ", false);
      Tensor t = Floats(ctx, 1'000'000), u = Floats(ctx, 1'000'000);
      ctx.world().Barrier().Wait();
      for (int i = 0; i < 2; ++i) {
        Busy(ctx, 0.01);
        if (all->rank() == 0) sums->AllReduce(t).WaitOn(ctx.device().compute());
        all->AllReduce(u).WaitOn(ctx.device().compute());
      }
      return Finished(ctx);
    };
  };
  const Lists pairs = {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, crossed = {{0, 2}, {1, 3}, {4, 6}, {5, 7}},
              far = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  const auto expect = [&](const char* cluster, const Lists& near, const Lists& apart, size_t actors) {
    spec::Spec spec = Spec(8, cluster);
    const RunResult each = Run(spec, step(near, apart));
    spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::AUTO);
    const RunResult folded = Run(spec, step(near, apart));
    ASSERT_TRUE(each.status.ok() && folded.status.ok()) << each.status << folded.status;
    EXPECT_EQ(folded.results, each.results);
    EXPECT_EQ(folded.results.kept().size(), actors);
  };
  expect(kPcieTree, pairs, crossed, 1);  // each pair has a PCIe switch of its own
  expect(kPcieTree, crossed, pairs, 2);  // all of a node share what joins the switches
  expect(kFatTree, pairs, far, 1);
  expect(kFatTree, far, pairs, 2);  // between nodes
}

// Ranks that say that they differ are told apart, and no others.
TEST_F(SimulatedTest, RanksThatSayThatTheyDifferAreRunApart) {
  const MeshShape mesh{.pp = 2, .dp = 2, .tp = 2};
  spec::Spec spec = WithMesh(Spec(1), mesh);
  const auto differ = [](int ranks, std::vector<int> kinds) {  // in groups of so many consecutive ranks
    return [ranks, kinds](RankContext& ctx) {
      ctx.world().SplitEvenly(ranks, ProcessGroup::Pattern::kConsecutive, "group")->RanksDiffer(kinds, "heads differ");
      return StrCat(ctx.rank());
    };
  };
  using testing::ElementsAre;
  for (const auto folding : {spec::Simulated::AUTO, spec::Simulated::ON}) {
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    EXPECT_THAT(RunAll(spec, differ(2, {3, 4})).results, ElementsAre("0", "1", "0", "1", "4", "5", "4", "5"));
    EXPECT_THAT(RunAll(spec, differ(4, {5, 5, 6, 6})).results, ElementsAre("0", "0", "2", "2", "4", "4", "6", "6"));
    EXPECT_THAT(RunAll(spec, differ(4, {5, 5, 5, 5})).results, ElementsAre("0", "0", "0", "0", "4", "4", "4", "4"));
    EXPECT_THAT(RunAll(spec, differ(1, {1})).results, ElementsAre("0", "0", "0", "0", "4", "4", "4", "4"));
    const RunResult each = RunAll(spec, differ(4, {1, 2, 3, 4}));
    EXPECT_THAT(each.results, ElementsAre("0", "1", "2", "3", "4", "5", "6", "7"));
    EXPECT_THAT(each.notes, testing::Contains("ranks were not folded: heads differ"));
  }
}

TEST_F(SimulatedTest, RanksThatFormDifferentGroupsAreRunApart) {
  spec::Spec spec = WithMesh(Spec(1), {.pp = 2, .dp = 8});
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  const RunResult result = RunAll(spec, [](RankContext& ctx) {  // ranks 0 and 8 meet, and the others nobody
    std::vector<std::vector<int>> groups = {{0, 8}};
    for (int r = 1; r < ctx.world_size(); ++r) {
      if (r != 8) groups.push_back({r});
    }
    return StrCat(ctx.rank(), " of ", ctx.world().Partition(groups, "odd")->size());
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (size_t r = 0; r < 16; ++r)
    EXPECT_EQ(result.results[r], r % 8 == 0 ? StrCat(r, " of 2") : r < 8 ? "1 of 1" : "9 of 1") << r;
}

}  // namespace told_apart_test
}  // namespace twofold
