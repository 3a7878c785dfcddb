// Members of in-memory runs that are lost, leave, come late or come anew.
#include "backends/in_memory/generations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {
namespace generations_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

spec::Spec Elastic(const std::vector<spec::MembershipEvent>& events = {}, double timeout_s = 20) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  for (const spec::MembershipEvent& event : events) *spec.mutable_train()->mutable_elastic()->add_events() = event;
  spec.mutable_train()->mutable_elastic();
  return spec;
}

// Adds up a one of every rank; survives losses. Returns the sum, and the generation in which it was made.
std::string SumOfOnes(RankContext& ctx, const ReformOptions& options = {}) {
  while (true) {
    bool lost = false;
    double sum = 0;
    try {
      Tensor one = ctx.device().NewTensor(Shape{1}, DType::kF32, Category::kOther);
      ctx.device().Launch(ctx.device().compute(), ops::Fill{.out = one, .value = 1});
      ctx.everyone().AllReduce(one).Wait();
      sum = ctx.device().Item(one, StandIn{0, "sum"});
      ctx.everyone().Barrier().Wait();
    } catch (const PeerLost&) {
      lost = true;
    } catch (const TimedOut&) {
      lost = true;
    }
    if (!lost) return StrCat(sum, " in generation ", ctx.generation().number);
    ctx.Reform(options);
  }
}

TEST(Generations, SurvivorsOfALossFormTheNext) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(4, [](RankContext& ctx) {
    if (ctx.member() == 2) throw std::runtime_error("injected");
    return SumOfOnes(ctx);
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results.Copies(), ElementsAre("3 in generation 1", "3 in generation 1", "", "3 in generation 1"));
  EXPECT_THAT(result.notes, ElementsAre(HasSubstr("generation 1: 3 ranks; lost: rank 2 (")));
}

TEST(Generations, RanksAreNumberedAnewAndMembersKeepTheirNumbers) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(3, [](RankContext& ctx) {
    if (ctx.member() == 0) throw std::runtime_error("injected");
    SumOfOnes(ctx);
    return StrCat(ctx.member(), " is ", ctx.rank(), " of ", ctx.world_size());
  });
  EXPECT_THAT(result.results.Copies(), ElementsAre("", "1 is 0 of 2", "2 is 1 of 2"));
}

TEST(Generations, WithoutTrainElasticALossEndsTheRun) {
  spec::Spec spec = Elastic();
  spec.clear_train();
  const RunResult result = MakeInMemoryFabric(spec, in_memory::GroupOptions{})->Run(3, [](RankContext& ctx) {
    EXPECT_FALSE(ctx.CanReform());
    if (ctx.rank() == 1) throw std::runtime_error("injected");
    ctx.world().Barrier().Wait();
    return std::string("done");
  });
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 1"));
}

TEST(Generations, TooFewMembersEndTheRun) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(3, [](RankContext& ctx) {
    if (ctx.member() < 2) throw std::runtime_error("injected");
    return SumOfOnes(ctx, {.min_members = 2});
  });
  EXPECT_FALSE(result.status.ok());
}

// Calls that do not match would not match again.
TEST(Generations, AMismatchEndsTheRun) {
  std::atomic<int> reformed = 0;
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(2, [&](RankContext& ctx) {
    Tensor t = ctx.device().NewTensor(Shape{ctx.rank() + 1}, DType::kF32, Category::kOther);
    bool failed = false;
    try {
      ctx.everyone().AllReduce(t).Wait();
    } catch (const RankFailure&) {
      failed = true;
    }
    if (failed) ctx.Reform({}), ++reformed;
    return std::string();
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << result.status;
  EXPECT_EQ(reformed, 0);
}

// Losses are survived; nothing else is, though a member has finished: what the others do wrong is no fault of the
// fabric.
TEST(Generations, AMismatchEndsTheRunThoughAnotherMemberHasFinished) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(3, [](RankContext& ctx) {
    const auto pair = ctx.everyone().Split(ctx.member() > 0 ? 0 : -1, ctx.rank(), "pair");
    if (ctx.member() == 0) return std::string("finished");
    Tensor t = ctx.device().NewTensor(Shape{ctx.member()}, DType::kF32, Category::kOther);
    pair->AllReduce(t).Wait();
    return std::string("summed");
  });
  EXPECT_EQ(result.results[0], "finished");
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("collective mismatch in group pair"));
}

TEST(Generations, MemoryThatRunsOutEndsTheRunThoughAnotherMemberHasFinished) {
  for (const bool after_a_loss : {false, true}) {
    spec::Spec spec = Elastic();
    spec.mutable_memory()->set_budget_mib(1);
    const RunResult result = MakeInMemoryFabric(spec, in_memory::GroupOptions{})->Run(2, [&](RankContext& ctx) {
      if (ctx.member() == 0) return std::string("finished");
      if (after_a_loss) SumOfOnes(ctx);  // goes on alone
      ctx.device().NewTensor(Shape{int64_t{1} << 20}, DType::kF32, Category::kOther);
      return std::string("allocated 4 MiB of 1");
    });
    EXPECT_EQ(result.results[0], "finished");
    EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted) << result.status;
    EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 1: out of memory"));
  }
}

// Nobody forms another generation after one has found that none can go on, also if one was lost just before.
TEST(Generations, ARunThatIsOverEndsWithItsReason) {
  for (const bool after_a_loss : {false, true}) {
    std::atomic<int> reformed = 0;
    const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(4, [&](RankContext& ctx) {
      if (ctx.member() == 3 && after_a_loss) throw std::runtime_error("injected");
      try {
        if (ctx.member() != 1 || after_a_loss) ctx.everyone().Barrier().Wait();
      } catch (const PeerLost&) {
      }
      if (ctx.member() == 1) throw RunOver(1, "the state is lost");
      ctx.Reform({}), ++reformed;
      return std::string("goes on");
    });
    EXPECT_EQ(result.status.code(), absl::StatusCode::kAborted) << result.status;
    EXPECT_EQ(result.status.message(), "the state is lost");
    EXPECT_EQ(reformed, 0);
    EXPECT_TRUE(result.notes.empty()) << result.notes[0];
  }
}

TEST(Generations, ARunIsOverThoughAnotherMemberHasFinished) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(2, [&](RankContext& ctx) {
    if (ctx.member() == 1) throw RunOver(1, "the state is lost");
    return std::string("finished");
  });
  EXPECT_EQ(result.results[0], "finished");
  EXPECT_EQ(result.status.message(), "the state is lost");
}

// A member that does not come is left out; when it comes at last, it learns so.
TEST(Generations, AMemberThatComesTooLateIsLeftOut) {
  std::atomic<bool> formed = false;
  std::string late;
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(3, [&](RankContext& ctx) {
    if (ctx.member() == 0) throw std::runtime_error("injected");
    if (ctx.member() == 1) {
      while (!formed) std::this_thread::yield();
      try {
        ctx.Reform({});
      } catch (const PeerLost& lost) {
        late = lost.what();
      }
      return std::string("left out");
    }
    ctx.Reform({.timeout_s = 0.05});
    formed = true;
    return StrCat("alone: ", ctx.world_size());
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[2], "alone: 1");
  EXPECT_THAT(late, HasSubstr("generation 1 was formed without it"));
}

TEST(Generations, NewcomersComeInBetweenSteps) {
  spec::MembershipEvent event;
  event.set_step(2), event.set_join(2);
  const RunResult result =
      MakeInMemoryFabric(Elastic({event}), in_memory::GroupOptions{})->Run(2, [](RankContext& ctx) {
        for (int64_t step = 0; ctx.generation().number == 0; ++step) {
          ctx.BeginStep(step);
          ctx.everyone().Barrier().Wait();
          if (ctx.EndsAfter(step + 1)) ctx.Reform({});
        }
        return SumOfOnes(ctx);
      });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results.size(), 4u);
  EXPECT_THAT(result.results.Copies(), Each("4 in generation 1"));
}

TEST(Generations, ExchangesGiveAllBytesByRank) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(3, [](RankContext& ctx) {
    const std::vector<std::string> first = ctx.Exchange(StrCat("a", ctx.rank())),
                                   second = ctx.Exchange(StrCat("b", ctx.rank()));
    return StrCat(first[0], first[1], first[2], second[0], second[1], second[2]);
  });
  EXPECT_THAT(result.results.Copies(), Each("a0a1a2b0b1b2"));
}

TEST(Generations, AnExchangeWithALostMemberThrows) {
  const RunResult result = MakeInMemoryFabric(Elastic(), in_memory::GroupOptions{})->Run(2, [](RankContext& ctx) {
    if (ctx.rank() == 1) throw std::runtime_error("injected");
    try {
      ctx.Exchange("alone");
    } catch (const PeerLost&) {
      return std::string("lost");
    }
    return std::string("not lost");
  });
  EXPECT_EQ(result.results[0], "lost");
}

}  // namespace generations_test
}  // namespace twofold
