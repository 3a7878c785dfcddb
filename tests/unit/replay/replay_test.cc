// One rank without the others: its memory is as it would be among them.
#include "backends/replay/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <array>

#include "core/base/errors.h"
#include "core/comm/staging.h"

namespace twofold {
namespace replay_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ReplayedRank kFifthOfTwelve{.rank = 5, .world_size = 12};

TEST(Replay, ReturnsWhatTheRankDoes) {
  const ReplayResult result = Replay(kFifthOfTwelve, [](RankContext& ctx) {
    EXPECT_EQ(ctx.rank(), 5);
    EXPECT_EQ(ctx.world_size(), 12);
    EXPECT_EQ(ctx.world().size(), 12);
    EXPECT_EQ(ctx.clock().Now(), Seconds(0));
    ctx.CheckInterrupt();
    return std::string("done");
  });
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.result, "done");
}

// As much for a group as any communication of it needs, but for a batch of more messages than there are slots.
TEST(Replay, GroupsHoldWhatTheyStageThrough) {
  Replay({.rank = 1, .world_size = 4, .kind = DeviceKind::kCuda, .staging = MiB(4)}, [](RankContext& ctx) {
    Device& d = ctx.device();
    const auto live = [&d] { return d.host_allocator().ledger().stats().live; };
    Tensor t = d.NewTensor(Shape{1 << 20}, DType::kF32, Category::kOther);
    ctx.world().Barrier().Wait();
    EXPECT_EQ(live(), Bytes(0));
    ctx.world().AllReduce(t).Wait();
    EXPECT_EQ(live(), MiB(4));
    {
      const auto half = ctx.world().SplitEvenly(2, ProcessGroup::Pattern::kStrided, "half");
      half->Send(t, 1).Wait();
      EXPECT_EQ(live(), MiB(8));
    }
    EXPECT_EQ(live(), MiB(4));
    std::vector<P2p> few(HostStaging::kSlots, {P2p::kSend, t, 0}), many(HostStaging::kSlots + 1, {P2p::kSend, t, 0});
    ctx.world().Batch(few).Wait();
    EXPECT_EQ(live(), MiB(4));
    Work work = ctx.world().Batch(many);
    EXPECT_EQ(live(), MiB(4) + KiB(512) * (HostStaging::kSlots + 1));
    work.Wait();
    EXPECT_EQ(live(), MiB(4));
    return std::string();
  });
}

TEST(Replay, HasTheWorkspacesOfItsDevice) {
  for (const auto& [kind, threads] : {std::pair(DeviceKind::kCpu, 1), {DeviceKind::kCpu, 2}, {DeviceKind::kCuda, 1}}) {
    Bytes used, expected;
    Replay({.kind = kind, .threads = threads}, [&](RankContext& ctx) {
      Device& d = ctx.device();
      EXPECT_EQ(d.kind(), kind);
      EXPECT_EQ(d.threads(), threads);
      const auto f32 = [&](Shape shape) { return d.NewTensor(std::move(shape), DType::kF32, Category::kActivations); };
      const ops::AttentionForward op{
          .qkv = f32({4, 32, 96}), .out = f32({4, 32, 32}), .lse = f32({4, 2, 32}), .heads = 2, .kv_heads = 2};
      const Bytes before = ctx.memory().live;
      d.Launch(d.compute(), op);
      EXPECT_EQ(ctx.memory().live, before);
      used = ctx.memory().peak - before;
      expected = ops::Workspace(op, kind, threads);
      return std::string();
    });
    EXPECT_GE(used, expected);
    EXPECT_LT(used, expected + Bytes(512));
    EXPECT_EQ(used > Bytes(0), kind == DeviceKind::kCpu);
  }
}

// A communication keeps its tensors until the program waits for it, or for one issued after it: then memory is reused.
TEST(Replay, CommunicationHoldsItsTensorsUntilTheProgramWaits) {
  Replay(kFifthOfTwelve, [](RankContext& ctx) {
    Device& d = ctx.device();
    Tensor all = d.NewTensor(Shape{12 * 1024}, DType::kF32, Category::kParameters);
    Tensor shard = d.NewTensor(Shape{1024}, DType::kF32, Category::kParameters);
    Work first = ctx.world().AllGather(all, shard), second = ctx.world().ReduceScatter(shard, all);
    EXPECT_TRUE(first.Test());
    all = Tensor(), shard = Tensor();
    EXPECT_EQ(ctx.memory().live, Bytes(13 * 4096));
    const auto other = d.NewStream("prefetch");
    second.WaitOn(*other);
    EXPECT_EQ(ctx.memory().live, Bytes(13 * 4096)) << "another stream's wait frees nothing";
    second.WaitOn(d.compute());
    EXPECT_EQ(ctx.memory().live, Bytes(0));
    return std::string();
  });
}

TEST(Replay, CountsWhatIsCommunicated) {
  Replay(kFifthOfTwelve, [](RankContext& ctx) {
    Tensor t = ctx.device().NewTensor(Shape{100}, DType::kF32, Category::kGradients);
    for (int i = 0; i < 3; ++i) ctx.world().AllReduce(t).Wait();
    const auto& entry = ctx.communication().entries().at({"world", Communication::kAllReduce});
    EXPECT_EQ(entry.count, 3);
    EXPECT_EQ(entry.bytes, Bytes(1200));
    return std::string();
  });
}

TEST(Replay, KnowsTheMembersOfEvenGroups) {
  const ReplayResult result = Replay(kFifthOfTwelve, [](RankContext& ctx) {
    using Pattern = ProcessGroup::Pattern;
    const auto node = ctx.world().SplitEvenly(4, Pattern::kConsecutive, "node");
    EXPECT_THAT(node->ranks(), ElementsAre(4, 5, 6, 7));
    EXPECT_EQ(node->rank(), 1);
    const auto replicas = ctx.world().SplitEvenly(3, Pattern::kStrided, "replicas");
    EXPECT_THAT(replicas->ranks(), ElementsAre(1, 5, 9));
    EXPECT_EQ(replicas->rank(), 1);
    const auto pair = node->SplitEvenly(2, Pattern::kStrided, "pair");
    EXPECT_THAT(pair->ranks(), ElementsAre(5, 7));
    EXPECT_EQ(pair->rank(), 0);
    EXPECT_EQ(ctx.world().SplitEvenly(12, Pattern::kStrided, "all")->ranks(), ctx.world().ranks());
    EXPECT_THAT(ctx.world().SplitEvenly(1, Pattern::kStrided, "me")->ranks(), ElementsAre(5));
    EXPECT_EQ(ctx.world().Split(-1, 0, "none"), nullptr);
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status.message();
}

TEST(Replay, DoesNotGuessAtGroupsByColor) {
  const ReplayResult result = Replay(kFifthOfTwelve, [](RankContext& ctx) {
    ctx.SetPartialResult("so far");
    ctx.world().Split(7, 0, "odd ones");
    return std::string();
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOther);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 5: split of group world into \"odd ones\""));
  EXPECT_EQ(result.result, "so far");
}

// Ranks of all groups that are made in one way are told apart, and only there.
TEST(Replay, TellsRanksApart) {
  const auto differ = [](int ranks, std::vector<int> kinds) {
    return Replay(kFifthOfTwelve,
                  [&](RankContext& ctx) {
                    const auto group = ctx.world().SplitEvenly(ranks, ProcessGroup::Pattern::kStrided, "group");
                    if (!kinds.empty()) group->RanksDiffer(kinds, "why");
                    return std::string();
                  })
        .kinds;
  };
  EXPECT_THAT(differ(4, {}), testing::IsEmpty()) << "nothing was said";
  EXPECT_THAT(differ(1, {0}), testing::IsEmpty()) << "one rank does not differ from itself";
  const std::vector<int> kinds = differ(4, {7, 8, 8, 7});  // ranks r, r + 3, r + 6 and r + 9
  ASSERT_EQ(kinds.size(), 12u);
  for (size_t r = 0; r < 12; ++r) EXPECT_EQ(kinds[r] == kinds[0], r / 3 == 0 || r / 3 == 3) << r;
  const std::vector<int> twice =
      Replay(kFifthOfTwelve, [](RankContext& ctx) {
        const auto pairs = ctx.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "pairs");
        pairs->RanksDiffer(std::array{0, 1}, "why");
        const auto sixes = ctx.world().SplitEvenly(6, ProcessGroup::Pattern::kStrided, "sixes");
        sixes->RanksDiffer(std::array{0, 0, 0, 1, 1, 1}, "why");
        return std::string();
      }).kinds;
  for (size_t r = 0; r < 12; ++r) EXPECT_EQ(twice[r] == twice[5], r % 2 == 1 && r < 6) << r;
}

// Ranks that only take fewer collectives over another group hold as much, unless those need staging.
TEST(Replay, TellsRanksApartThatStageLess) {
  const auto kinds = [](Bytes staging) {
    ReplayedRank rank = kFifthOfTwelve;
    rank.staging = staging;
    return Replay(rank,
                  [](RankContext& ctx) {
                    const auto pairs = ctx.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "pairs");
                    const auto sixes = ctx.world().SplitEvenly(6, ProcessGroup::Pattern::kStrided, "sixes");
                    sixes->RanksDifferOver(*pairs, std::array{1, 0, 0, 0, 0, 0}, "why", false);
                    return std::string();
                  })
        .kinds;
  };
  EXPECT_THAT(kinds(Bytes(0)), testing::IsEmpty());
  const std::vector<int> staged = kinds(HostStaging::kBytes);
  ASSERT_EQ(staged.size(), 12u);
  for (size_t r = 0; r < 12; ++r) EXPECT_EQ(staged[r] == staged[0], r < 2) << r;
}

TEST(Replay, RunsOutOfMemoryAsTheRankWould) {
  const ReplayResult result = Replay({.rank = 3, .world_size = 4, .memory = MiB(4)}, [](RankContext& ctx) {
    const Tensor a = ctx.device().NewTensor(Shape{1 << 18}, DType::kF32, Category::kParameters);
    const Tensor b = ctx.device().NewTensor(Shape{1 << 20}, DType::kF32, Category::kActivations);
    return std::string();
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOutOfMemory);
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("rank 3: out of memory: asked for 4,194,304 bytes of activations with 1,048,576 live"));
}

}  // namespace replay_test
}  // namespace twofold
