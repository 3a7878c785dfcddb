// Ranks of a hybrid, of which each stage's are one and stages are not: one actor for each stage gives the figures that
// all ranks give.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"
#include "tests/unit/simulated/hybrid_job.h"

namespace twofold {
namespace folding_hybrids_test {

using testing::HasSubstr;

TEST_F(SimulatedTest, FoldedHybridsGiveTheSameFigures) {
  const auto tp_outside = std::array<Axis, kGridAxes>{Axis::kTp, Axis::kPp, Axis::kDp, Axis::kCp};
  struct Case {
    std::string cluster;
    MeshShape mesh;
    const char* algorithm;
  };
  for (const Case& c : {Case{kPlain, {.pp = 2, .dp = 2, .tp = 2}, "auto"},
                        {kPlain, {.pp = 4, .tp = 2}, "ring"},
                        {kPlain, {.dp = 2, .tp = 4}, "auto"},
                        {kPlain, {.pp = 4, .dp = 4}, "auto"},
                        {kPlain, {.pp = 2, .dp = 4, .tp = 2, .order = tp_outside}, "auto"},
                        {kPlain, {.pp = 2, .dp = 2, .cp = 2, .tp = 2}, "auto"},
                        {kPlain, {.pp = 2, .dp = 4, .tp = 2, .ep = 2}, "auto"},
                        {kFatTree, {.pp = 2, .dp = 2, .tp = 4}, "ring"},
                        {kFatTree, {.pp = 4, .dp = 4, .tp = 4}, "ring"},
                        {kFatTree, {.pp = 4, .tp = 4}, "auto"},
                        {absl::StrFormat(kHost, 64), {.pp = 2, .dp = 2, .tp = 2}, "auto"}}) {
    spec::Spec spec = WithMesh(Spec(1, c.cluster), c.mesh);
    spec.mutable_fabric()->mutable_simulated()->set_algorithm(c.algorithm);
    const RankFunction job = RunHybrid({.mesh = c.mesh});
    const auto unfolded = RunAll(spec, job);
    spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::AUTO);
    const auto folded = RunAll(spec, job);
    ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
    EXPECT_THAT(folded.notes, testing::Contains(HasSubstr("ranks are folded"))) << testing::PrintToString(folded.notes);
    ASSERT_EQ(folded.results.size(), static_cast<size_t>(c.mesh.size()));
    EXPECT_EQ(folded.results, unfolded.results)
        << c.mesh.pp << " " << c.mesh.dp << " " << c.mesh.cp << " " << c.mesh.tp;
    EXPECT_EQ(RunAll(spec, job).results, folded.results);  // the same again
  }
}

TEST_F(SimulatedTest, StandInsAreTold) {
  spec::Spec spec = WithMesh(Spec(1), {.pp = 2, .dp = 2, .tp = 2});
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  const auto result = RunAll(spec, [](RankContext& ctx) { return StrCat("rank ", ctx.rank()); });
  EXPECT_THAT(result.notes, testing::Contains("ranks are folded: ranks 0, 4 stand for 4 each"));
  EXPECT_THAT(result.results,
              testing::ElementsAre("rank 0", "rank 0", "rank 0", "rank 0", "rank 4", "rank 4", "rank 4", "rank 4"));
}

// A copy for every rank would be more than Protocol Buffers hold.
TEST_F(SimulatedTest, WhatAFoldedRankLeavesTravelsOnce) {
  constexpr int kRanks = 2400;
  spec::Spec spec = Spec(kRanks, absl::StrReplaceAll(kPlain, {{"hosts: 64", StrCat("hosts: ", kRanks)}}));
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  const RunResult result = Run(spec, [](RankContext&) { return std::string(1 << 20, 'x'); });
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.results.size(), static_cast<size_t>(kRanks));
  for (const size_t rank : {0, 1, kRanks - 1}) EXPECT_EQ(result.results[rank].size(), 1u << 20) << rank;
  EXPECT_EQ(result.results.kept().size(), 1u);
}

// A replica's message crosses switches that the other's does not: replicas are not of one class, ranks along tp are.
TEST_F(SimulatedTest, ReplicasOnOtherKindsOfPlacesAreRunApart) {
  // Two nodes a leaf: the first replica's on nodes 0, 1 and 2, the second's on 3, 4 and 5.
  const MeshShape mesh{.pp = 3, .dp = 2, .tp = 4, .order = {Axis::kDp, Axis::kPp, Axis::kCp, Axis::kTp}};
  spec::Spec spec = WithMesh(Spec(1, kFatTree), mesh);
  spec.mutable_fabric()->mutable_simulated()->set_algorithm("ring");
  const RankFunction job = RunHybrid({.mesh = mesh});
  const auto unfolded = RunAll(spec, job);
  for (const auto folding : {spec::Simulated::AUTO, spec::Simulated::ON}) {
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    const auto folded = RunAll(spec, job);
    ASSERT_TRUE(folded.status.ok()) << folded.status;
    EXPECT_EQ(folded.results, unfolded.results);
    EXPECT_THAT(folded.notes, testing::Contains("ranks are folded: ranks 0, 4, 8, 12, 16, 20 stand for 4 each"));
  }
}

// One slow rank is a class of its own, and those that wait for it are classes by what they have to do with it. On the
// fat tree its messages share links with those of some replicas and not of others, which is found while they run.
TEST_F(SimulatedTest, ASlowRankSplitsTheClassesThatItTouches) {
  const MeshShape mesh{.pp = 2, .dp = 8, .tp = 4};
  for (const char* cluster : {kPlain, kFatTree}) {
    for (const int slow : {0, 37}) {
      spec::Spec spec = WithMesh(Spec(1, cluster), mesh);
      spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
      simulated.set_algorithm("ring");
      spec::Straggler& straggler = *simulated.add_stragglers();
      straggler.set_rank(slow), straggler.set_factor(1.7);
      const RankFunction job = RunHybrid({.mesh = mesh});
      const auto unfolded = RunAll(spec, job);
      simulated.set_folding(spec::Simulated::AUTO);
      const auto folded = RunAll(spec, job);
      ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
      EXPECT_EQ(folded.results, unfolded.results) << cluster << slow;
      EXPECT_EQ(folded.results.kept().size(), cluster == kPlain ? 8u : 64u);
      simulated.clear_stragglers();
      EXPECT_NE(RunAll(spec, job).results, unfolded.results);
    }
  }
}

// The slowest of a class counts for all of it, which makes the run no longer than the note says.
TEST_F(SimulatedTest, ANoteBoundsWhatTheSlowestAdds) {
  const MeshShape mesh{.pp = 2, .dp = 8, .tp = 4};
  for (const int slow : {0, 37}) {
    spec::Spec spec = WithMesh(Spec(1, kFatTree), mesh);
    spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
    simulated.set_algorithm("ring");
    spec::Straggler& straggler = *simulated.add_stragglers();
    straggler.set_rank(slow), straggler.set_factor(1.7);
    const RankFunction job = RunHybrid({.mesh = mesh});
    const auto unfolded = RunAll(spec, job);
    simulated.set_folding(spec::Simulated::ON);
    const auto folded = RunAll(spec, job);
    ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
    ASSERT_LT(folded.results.kept().size(), 64u);
    const std::string said = "which adds at most ";
    const auto note = std::find_if(folded.notes.begin(), folded.notes.end(),
                                   [&](const std::string& n) { return n.find(said) != std::string::npos; });
    ASSERT_NE(note, folded.notes.end());
    const double share = std::stod(note->substr(note->find(said) + said.size())) / 100;
    EXPECT_GT(share, 0);
    for (size_t r = 0; r < 64; ++r)
      EXPECT_LE(std::stod(folded.results[r]) * (1 - share), std::stod(unfolded.results[r]) * (1 + 1e-3)) << r;
  }
}

// Passes messages around rings of 4, to the next rank and to the one after it.
std::string AroundRings(RankContext& ctx) {
  const auto ring = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kConsecutive, "ring");
  const Tensor a = Floats(ctx, 1000), b = Floats(ctx, 2000), from_a = Floats(ctx, 1000), from_b = Floats(ctx, 2000);
  const auto at = [&](int places) { return (ring->rank() + places + 4) % 4; };
  const P2p messages[] = {{P2p::kSend, a, at(1), 0},
                          {P2p::kSend, b, at(2), 1},
                          {P2p::kRecv, from_b, at(-2), 1},
                          {P2p::kRecv, from_a, at(-1), 0}};
  ctx.world().Barrier().Wait();
  for (int i = 0; i < 3; ++i) {
    Busy(ctx, 0.01);
    ring->Batch(messages).WaitOn(ctx.device().compute());
  }
  ctx.device().compute().Synchronize();
  return Finished(ctx);
}

TEST_F(SimulatedTest, FoldedRanksPassMessagesAroundRings) {
  for (const char* cluster : {kPlain, kFatTree}) {
    for (const double slowdown : {1.0, 1.5}) {
      spec::Spec spec = Spec(16, cluster);
      spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
      if (slowdown > 1) {
        spec::Straggler& straggler = *simulated.add_stragglers();
        straggler.set_rank(5), straggler.set_factor(slowdown);
      }
      const auto unfolded = Run(spec, AroundRings);
      simulated.set_folding(spec::Simulated::AUTO);
      const auto folded = Run(spec, AroundRings);
      ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
      EXPECT_EQ(folded.results, unfolded.results) << cluster << slowdown;
      // Rank 5 and the three ranks that it delays one after another are apart, and so are their ring's.
      EXPECT_EQ(folded.results.kept().size(), slowdown > 1 ? 5u : 1u) << cluster;
    }
  }
}

TEST_F(SimulatedTest, FoldedRanksThatDoNotShiftAreRunApart) {
  const RankFunction pairs = [](RankContext& ctx) {  // even ranks send to odd ones
    const Tensor t = Floats(ctx, 1000);
    const P2p send[] = {{P2p::kSend, t, ctx.rank() + 1}}, receive[] = {{P2p::kRecv, t, ctx.rank() - 1}};
    ctx.world().Barrier().Wait();
    (ctx.rank() % 2 == 0 ? ctx.world().Batch(send) : ctx.world().Batch(receive)).Wait();
    return Finished(ctx);
  };
  spec::Spec spec = Spec(8);
  const auto unfolded = Run(spec, pairs);
  for (auto folding : {spec::Simulated::AUTO, spec::Simulated::ON}) {
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    const auto apart = Run(spec, pairs);
    ASSERT_TRUE(apart.status.ok()) << apart.status;
    EXPECT_EQ(apart.results, unfolded.results);
    EXPECT_THAT(apart.notes, testing::Contains("ranks were not folded: identical ranks send messages to each other"));
  }
}

// With more than 1,024 ranks, the slowest of a ring may count for all of it at once, instead of one after another; up
// to 4,096 ranks if it adds no more than 0.5 %.
TEST_F(SimulatedTest, ManyFoldedRanksOfARingWaitForItsSlowest) {
  const std::string hosts = absl::StrReplaceAll(kPlain, {{"hosts: 64", "hosts: 8192"}});
  const auto run = [&](int ranks, double slowdown, spec::Simulated::Folding folding) {
    spec::Spec spec = Spec(ranks, hosts);
    spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
    simulated.set_folding(folding);
    spec::Straggler& straggler = *simulated.add_stragglers();
    straggler.set_rank(5), straggler.set_factor(slowdown);
    RunResult result = Run(spec, AroundRings);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return result;
  };
  const auto seconds = [](const std::string& result) { return std::stod(result); };
  const auto adds = testing::Contains(HasSubstr("the slowest rank's time is used for all, which adds at most "));
  const RunResult exact = run(1032, 1.005, spec::Simulated::OFF), folded = run(1032, 1.005, spec::Simulated::AUTO);
  EXPECT_THAT(folded.notes, adds);
  EXPECT_THAT(folded.notes,
              testing::Contains(HasSubstr("folded ranks began messages around a ring at different times")));
  EXPECT_EQ(folded.results.kept().size(), 3u);  // rank 5, the others of its ring, and the others
  for (size_t r = 0; r < exact.results.size(); ++r) {
    EXPECT_GE(seconds(folded.results[r]), seconds(exact.results[r]) * (1 - 1e-9)) << r;
    EXPECT_LE(seconds(folded.results[r]), seconds(exact.results[r]) * 1.005) << r;
  }
  const RunResult slow = run(1032, 1.5, spec::Simulated::AUTO);
  EXPECT_EQ(slow.results, run(1032, 1.5, spec::Simulated::OFF).results);
  EXPECT_THAT(slow.notes, testing::Contains(HasSubstr("ranks were not folded: ranks of one class end communications")));
  spec::Spec spec = Spec(1032, hosts);
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::AUTO);
  spec::Straggler& straggler = *spec.mutable_fabric()->mutable_simulated()->add_stragglers();
  straggler.set_rank(5), straggler.set_factor(1.005);
  const RunResult left = Run(spec, [](RankContext& ctx) {
    if (ctx.rank() != 5) return AroundRings(ctx);
    const auto ring = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kConsecutive, "ring");
    ctx.world().Barrier().Wait();
    return std::string();
  });
  EXPECT_THAT(std::string(left.status.message()), HasSubstr("missing: rank 5"));
  const RunResult many = run(4104, 1.5, spec::Simulated::AUTO);
  EXPECT_THAT(many.notes, adds);
  EXPECT_EQ(many.results.kept().size(), 3u);
}

TEST_F(SimulatedTest, WhatFoldedRanksOfAStageCannotDo) {
  const MeshShape mesh{.pp = 2, .dp = 2, .tp = 2};
  spec::Spec spec = WithMesh(Spec(1), mesh);
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  const auto why = [&](const RankFunction& job) { return std::string(RunAll(spec, job).status.message()); };
  EXPECT_THAT(why([](RankContext& ctx) {
                ctx.world().Split(ctx.rank() % 2, 0, "odd");
                return std::string();
              }),
              HasSubstr("folding: ON, but ranks form different groups"));
  spec = WithMesh(Spec(1), {.pp = 2});
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  EXPECT_THAT(std::string(MakeSimulatedFabric(spec).status().message()),
              HasSubstr("folding: ON, but ranks do different things"));
}

TEST_F(SimulatedTest, PartitionsTakeNoTimeAndMustAgree) {
  spec::Spec spec = Spec(4);
  const auto result = Run(spec, [](RankContext& ctx) {
    const std::vector<std::vector<int>> groups = {{3, 0}, {1}, {2}};
    if (ctx.rank() == 3) Busy(ctx, 0.5);  // nobody waits for it
    auto group = ctx.world().Partition(groups, "pair");
    return StrCat(group->name(), " ", group->rank(), " of ", group->size(), " at ", Number(ctx.clock().Now().value()));
  });
  EXPECT_THAT(result.results,
              testing::ElementsAre("pair 1 of 2 at 0", "pair 0 of 1 at 0", "pair 0 of 1 at 0", "pair 0 of 2 at 0"));
  const auto differ = Run(spec, [](RankContext& ctx) {
    std::vector<std::vector<int>> groups = {{0, 1}, {2, 3}};
    if (ctx.rank() == 2) groups = {{0}, {1}, {2, 3}};
    ctx.world().Partition(groups, "pair");
    return std::string();
  });
  EXPECT_THAT(std::string(differ.status.message()),
              HasSubstr("split 1: rank 0 calls a list of 2 groups, rank 2 calls a different list of 3 groups"));
}

TEST_F(SimulatedTest, RanksWithDataAreNotFolded) {
  spec::Spec spec = Spec(5);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_folding(spec::Simulated::ON);
  simulated.set_data(spec::Simulated::REAL);
  EXPECT_THAT(std::string(MakeSimulatedFabric(spec).status().message()), HasSubstr("data: REAL"));
}

}  // namespace folding_hybrids_test
}  // namespace twofold
