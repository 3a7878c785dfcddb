// One actor that stands for all ranks gives the figures that all give, and is refused where it would not.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "backends/simulated/most_apart.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace folding_test {

using testing::HasSubstr;

// The memory system is the narrowest link, and is everybody's.
constexpr char kTightHost[] = R"(
  name: "host"
  device { kind: CPU_DEVICE memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 matmul_efficiency: 1 memory_efficiency: 1 }
  shared_memory_host { cores: %d latency_us: 1000 core_gbytes_per_second: 1 total_gbytes_per_second: 2.5 }
)";

TEST_F(SimulatedTest, FoldedRanksGiveTheSameFigures) {
  for (int ranks : {2, 3, 8, 64}) {
    for (const char* algorithm : {"auto", "ring", "direct"}) {
      spec::Spec spec = Spec(ranks);
      spec.mutable_fabric()->mutable_simulated()->set_algorithm(algorithm);
      const auto unfolded = Run(spec, Step);
      spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::AUTO);
      const auto folded = Run(spec, Step);
      ASSERT_TRUE(unfolded.status.ok()) << unfolded.status;
      ASSERT_TRUE(folded.status.ok()) << folded.status << " " << algorithm << " " << ranks;
      // 4-byte all-reduces over 3 ranks take recursive doubling or a tree, whose ranks finish at different times
      const bool together = algorithm != std::string("auto") || (ranks & (ranks - 1)) == 0;
      EXPECT_THAT(folded.notes, testing::Contains(HasSubstr(together ? "rank 0 stands for all" : "not folded")));
      EXPECT_EQ(folded.results, unfolded.results) << algorithm << " " << ranks;
    }
  }
}

// What sharded layouts do: gathers and reductions on streams of their own, beside one another and beside compute; with
// `shard` < the world in groups of that many, and between those groups.
RankFunction Sharded(int shard) {
  return [shard](RankContext& ctx) {
    using Pattern = ProcessGroup::Pattern;
    const int n = ctx.world_size();
    auto gather = ctx.world().SplitEvenly(shard, Pattern::kConsecutive, "gather");
    auto reduce = ctx.world().SplitEvenly(shard, Pattern::kConsecutive, "reduce");
    auto replicas = gather->size() == n ? nullptr : ctx.world().SplitEvenly(n / shard, Pattern::kStrided, "replicas");
    auto halves = shard % 2 == 0 ? gather->SplitEvenly(shard / 2, Pattern::kStrided, "halves") : nullptr;
    Tensor full = Floats(ctx, 48'000'000 / shard * shard), part = Floats(ctx, 48'000'000 / shard),
           mean = Floats(ctx, 960'000);
    ctx.world().Barrier().Wait();
    for (int i = 0; i < 3; ++i) {
      Work gathered = gather->AllGather(full, part);
      Busy(ctx, 0.05);
      Work reduced = reduce->ReduceScatter(part, full);
      gathered.WaitOn(ctx.device().compute());
      gathered = gather->AllGather(full, part);
      Busy(ctx, 0.03);
      if (halves != nullptr) halves->AllReduce(mean).WaitOn(ctx.device().compute());
      reduced.WaitOn(ctx.device().compute());
      if (replicas != nullptr) replicas->AllReduce(part).WaitOn(ctx.device().compute());
      gathered.WaitOn(ctx.device().compute());
    }
    ctx.world().AllReduce(mean).Wait();
    ctx.device().compute().Synchronize();
    std::string out =
        absl::StrFormat("%.13g stalled %.13g", ctx.clock().Now().value(), ctx.device().compute().stalled().value());
    for (const auto& [key, entry] : ctx.communication().entries()) {
      StrAppend(&out, " ", key.first, " ", KindName(key.second), " ", entry.count, " ", entry.bytes.value(), " ",
                absl::StrFormat("%.13g", entry.seconds.load()));
    }
    return out;
  };
}

TEST_F(SimulatedTest, FoldedRanksThatCommunicateInSeveralGroupsGiveTheSameFigures) {
  struct Case {
    std::string cluster;
    int ranks, shard;
    const char* algorithm;
  };
  for (const Case& c : {Case{kPlain, 2, 2, "auto"},
                        {kPlain, 8, 8, "auto"},
                        {kPlain, 8, 4, "auto"},
                        {kPlain, 8, 2, "direct"},
                        {kPlain, 12, 3, "ring"},
                        {kPlain, 6, 6, "ring"},
                        {kPlain, 64, 8, "auto"},
                        {absl::StrFormat(kHost, 64), 4, 4, "auto"},
                        {absl::StrFormat(kHost, 4), 8, 4, "auto"},
                        {absl::StrFormat(kTightHost, 64), 8, 4, "auto"}}) {
    spec::Spec spec = Spec(c.ranks, c.cluster);
    spec.mutable_fabric()->mutable_simulated()->set_algorithm(c.algorithm);
    const auto unfolded = Run(spec, Sharded(c.shard));
    spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
    const auto folded = Run(spec, Sharded(c.shard));
    ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
    EXPECT_EQ(folded.results, unfolded.results) << c.ranks << " " << c.shard << " " << c.algorithm;
  }
}

// Ranks need not sit alike: what counts is that all of them, in all groups, end each collective together. Where they do
// not, the run is repeated unfolded.
TEST_F(SimulatedTest, FoldedRanksOnAFatTreeGiveTheSameFigures) {
  struct Case {
    int ranks, shard;
    const char* algorithm;
    bool folds;
  };
  for (const Case& c : {Case{16, 16, "auto", true},
                        {16, 4, "ring", true},
                        {32, 32, "hierarchical", true},
                        {64, 64, "ring", true},
                        {64, 64, "auto", true},
                        {12, 12, "ring", true},
                        {64, 4, "auto", true},
                        {64, 16, "direct", false}}) {
    spec::Spec spec = Spec(c.ranks, kFatTree);
    spec.mutable_fabric()->mutable_simulated()->set_algorithm(c.algorithm);
    std::vector<RankFunction> jobs = {Sharded(c.shard)};
    if (c.folds) jobs.push_back(Step);
    for (const RankFunction& job : jobs) {
      spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::OFF);
      const auto unfolded = Run(spec, job);
      spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::AUTO);
      const auto automatic = Run(spec, job);
      ASSERT_TRUE(unfolded.status.ok() && automatic.status.ok()) << unfolded.status << " " << automatic.status;
      EXPECT_EQ(automatic.results, unfolded.results) << c.ranks << " " << c.shard << " " << c.algorithm;
      const bool folded = testing::Matches(testing::Contains(HasSubstr("rank 0 stands for all")))(automatic.notes);
      EXPECT_EQ(folded, c.folds) << c.ranks << " " << c.shard << " " << c.algorithm;
    }
  }
}

// Two transfers of two groups at once: each has half of the links while both are there.
TEST_F(SimulatedTest, GroupsOfTheSameRanksShareTheirLinks) {
  for (auto folding : {spec::Simulated::OFF, spec::Simulated::ON}) {
    spec::Spec spec = Spec(4);
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    const auto result = Run(spec, [](RankContext& ctx) {
      auto gather = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kConsecutive, "gather");
      auto reduce = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kStrided, "reduce");
      Tensor full = Floats(ctx, 100'000'000), part = Floats(ctx, 25'000'000), small = Floats(ctx, 12'500'000),
             half = Floats(ctx, 50'000'000);
      Work gathered = gather->AllGather(full, part);      // alone: 0.302 (recursive doubling: 2 rounds)
      Work reduced = reduce->ReduceScatter(small, half);  // alone: 0.152; beside it: 0.302, as each has half
      reduced.Wait();
      const double first = ctx.clock().Now().value();
      gathered.Wait();  // 0.15 s of its bytes are left, and the links are its own
      return StrCat(Number(first), " ", Number(ctx.clock().Now().value()));
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    for (const std::string& r : result.results) EXPECT_EQ(r, "0.302 0.452");
  }
}

TEST_F(SimulatedTest, ThousandsOfFoldedRanksShardQuickly) {
  spec::Spec spec = Spec(4096, absl::StrReplaceAll(kPlain, {{"hosts: 64", "hosts: 4096"}}));
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  const auto result = Run(spec, [](RankContext& ctx) {
    auto gather = ctx.world().SplitEvenly(8, ProcessGroup::Pattern::kConsecutive, "gather");
    auto reduce = ctx.world().SplitEvenly(512, ProcessGroup::Pattern::kStrided, "reduce");
    Tensor full = Floats(ctx, 8000), part = Floats(ctx, 1000), whole = Floats(ctx, 512 * 8), shard = Floats(ctx, 8);
    ctx.world().Barrier().Wait();
    for (int i = 0; i < 1000; ++i) {
      Work gathered = gather->AllGather(full, part);
      Work reduced = reduce->ReduceScatter(shard, whole);
      gathered.Wait();
      reduced.Wait();
    }
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;  // flow by flow it would take longer than a test may
}

// Where standing for the others would change something it is refused; where it was asked for, the slowest counts.
TEST_F(SimulatedTest, WhereRanksPartTheSlowestCountsOrNobodyFolds) {
  spec::Spec spec = Spec(5);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_algorithm("tree");  // its ranks finish at different times
  const auto unfolded = Run(spec, Step);
  simulated.set_folding(spec::Simulated::AUTO);
  const auto automatic = Run(spec, Step);
  EXPECT_EQ(automatic.results, unfolded.results);
  EXPECT_THAT(automatic.notes, testing::Contains(HasSubstr("not folded: ranks finish all_reduce at different times")));
  simulated.set_folding(spec::Simulated::ON);
  const auto folded = Run(spec, Step);
  ASSERT_TRUE(folded.status.ok()) << folded.status;
  EXPECT_THAT(folded.notes, testing::Contains(HasSubstr("folded ranks ended the same communication up to 16.7 % of its "
                                                        "time apart; the slowest rank's time is used for all")));
  double last = 0;
  for (const std::string& r : unfolded.results) last = std::max(last, std::stod(r));
  EXPECT_GE(std::stod(folded.results[0]), last * (1 - 1e-9));
  EXPECT_THAT(folded.results, testing::Each(folded.results[0]));
}

// Few ranks are folded, too, if it adds no more than is allowed; the result says what it adds at most.
TEST_F(SimulatedTest, RanksThatPartByLessThanAllowedAreFolded) {
  spec::Spec spec = Spec(5);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_algorithm("tree");  // as above
  const auto unfolded = Run(spec, Step);
  EXPECT_EQ(unfolded.folding_adds, 0);
  simulated.set_folding(spec::Simulated::AUTO);
  simulated.set_folding_error(0.5);
  const auto folded = Run(spec, Step);
  ASSERT_TRUE(folded.status.ok()) << folded.status;
  EXPECT_THAT(folded.notes, testing::Contains(HasSubstr("ranks are folded: rank 0 stands for all 5")));
  EXPECT_GT(folded.folding_adds, 0);
  double last = 0;
  for (const std::string& r : unfolded.results) last = std::max(last, std::stod(r));
  const double seconds = std::stod(folded.results[0]);
  EXPECT_GE(seconds, last * (1 - 1e-9));
  EXPECT_LE(seconds * (1 - folded.folding_adds), last * (1 + 1e-9));
  simulated.set_folding_error(0.99 * folded.folding_adds);  // it adds more than this
  const auto refused = Run(spec, Step);
  EXPECT_EQ(refused.results, unfolded.results);
  EXPECT_EQ(refused.folding_adds, 0);
  EXPECT_THAT(refused.notes, testing::Contains(HasSubstr("not folded: ranks of one class end communications at")));
}

TEST(MostApart, GrowsWithTheNumberOfRanks) {
  spec::Simulated simulated;
  EXPECT_EQ(MostApart(simulated, kMostRunOneByOne), 0);
  EXPECT_EQ(MostApart(simulated, kMostRunOneByOne + 1), kMostApart);
  simulated.set_folding_error(0.001);
  EXPECT_EQ(MostApart(simulated, kMostRunOneByOne), 0.001);
  EXPECT_EQ(MostApart(simulated, kMostRunAfterAll), kMostApart);
  simulated.set_folding_error(0.02);
  EXPECT_EQ(MostApart(simulated, kMostRunAfterAll), 0.02);
  EXPECT_TRUE(std::isinf(MostApart(simulated, kMostRunAfterAll + 1)));
  simulated.set_folding(spec::Simulated::ON);
  EXPECT_TRUE(std::isinf(MostApart(simulated, 8)));
}

// With a root, ranks end at different times. If the slowest counts for all, it is the time until the last one is done.
TEST_F(SimulatedTest, TheTimeUntilTheLastIsDoneIsThatOfAllRanks) {
  for (const char* algorithm : {"auto", "tree"}) {
    const RankFunction rooted = [](RankContext& ctx) {
      Tensor t = Floats(ctx, 100'000);
      std::string times;
      for (const bool reduce : {false, true}) {
        ctx.world().Barrier().Wait();
        (reduce ? ctx.world().Reduce(t, ReduceOp::kSum, 0) : ctx.world().Broadcast(t, 0)).Wait();
        ctx.world().Barrier().Wait();
        StrAppend(&times, Finished(ctx), " ");
      }
      return times;
    };
    spec::Spec spec = Spec(13, kFatTree);
    spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
    simulated.set_algorithm(algorithm);
    const auto unfolded = Run(spec, rooted);
    simulated.set_folding(spec::Simulated::ON);
    const auto folded = Run(spec, rooted);
    ASSERT_TRUE(unfolded.status.ok() && folded.status.ok()) << unfolded.status << " " << folded.status;
    EXPECT_EQ(folded.results, unfolded.results) << algorithm;
  }
}

// All send to all at once in one, each to its neighbour in the other: nobody has shown that one rank's part is all's,
// so all ranks' flows are on the network.
TEST_F(SimulatedTest, FoldedRanksWhoseUnlikePatternsOverlapGiveTheSameFigures) {
  const RankFunction overlapping = [](RankContext& ctx) {
    auto gather = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kConsecutive, "gather");
    auto other = ctx.world().SplitEvenly(4, ProcessGroup::Pattern::kConsecutive, "other");
    Tensor full = Floats(ctx, 4000), part = Floats(ctx, 1000), in = Floats(ctx, 4000), out = Floats(ctx, 4000);
    const std::vector<int64_t> counts(4, 1000);
    ctx.world().Barrier().Wait();
    other->AllToAllV(out, counts, in, counts).Wait();  // alone it can be folded
    gather->AllGather(full, part).Wait();
    Work gathered = gather->AllGather(full, part);
    other->AllToAllV(out, counts, in, counts).Wait();
    gathered.Wait();
    return Finished(ctx);
  };
  spec::Spec spec = Spec(4);
  const auto unfolded = Run(spec, overlapping);
  ASSERT_TRUE(unfolded.status.ok()) << unfolded.status;
  for (auto folding : {spec::Simulated::AUTO, spec::Simulated::ON}) {
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    const auto folded = Run(spec, overlapping);
    EXPECT_THAT(folded.notes, testing::Contains(HasSubstr("rank 0 stands for all")));
    EXPECT_EQ(folded.results, unfolded.results);
  }
}

}  // namespace folding_test
}  // namespace twofold
