// Small collectives, which no thread is woken for: order, progress and failures are those of all others.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace small_collectives_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kFew = 10, kMany = 100'000;  // floats: a small collective, and one that is not

RunResult RunRanks(int ranks, const RankFunction& fn, double timeout_s = 60) {
  spec::Spec spec;
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  return MakeInMemoryFabric(spec, in_memory::GroupOptions{})->Run(ranks, fn);
}
Tensor Floats(RankContext& c, int64_t n, float value = 1) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  std::fill_n(t.data<float>(), n, value);
  return t;
}
void ExpectAll(const Tensor& t, float value) {
  for (int64_t i = 0; i < t.numel(); ++i) ASSERT_EQ(t.data<float>()[i], value) << t.ToString() << " element " << i;
}
std::string Message(const RunResult& r) { return std::string(r.status.message()); }

// Rank 1 issues its part and does not wait before rank 0 is done: it would never be, if it needed rank 1's host.
TEST(SmallCollectives, ARankThatHasGoneOnHoldsNobodyUp) {
  std::atomic<bool> done = false;
  ASSERT_TRUE(RunRanks(2, [&done](RankContext& c) {
                Tensor t = Floats(c, 1000), wide = Floats(c, 2000, 0),
                       shard = Floats(c, 1000, static_cast<float>(c.rank() + 1));
                Work sum = c.world().AllReduce(t);
                if (c.rank() == 0) sum.Wait();
                Work gathered = c.world().AllGather(wide, shard);
                if (c.rank() == 0) gathered.Wait();
                if (c.rank() == 0) done = true;
                while (!done) std::this_thread::yield();
                gathered.Wait();
                ExpectAll(t, 2);
                ExpectAll(wide.Slice(0, 1000), 1);
                ExpectAll(wide.Slice(1000, 1000), 2);
                return std::string();
              }).status.ok());
}

TEST(SmallCollectives, ACallMayUseTheResultOfTheOneBefore) {
  ASSERT_TRUE(RunRanks(3, [](RankContext& c) {
                Tensor t = Floats(c, kFew);
                Work first = c.world().AllReduce(t), second = c.world().AllReduce(t);
                second.Wait();
                ExpectAll(t, 9);
                first.Wait();
                return std::string();
              }).status.ok());
}

TEST(SmallCollectives, KeepTheirOrderAmongLargeOnesAndMessages) {
  ASSERT_TRUE(RunRanks(2, [](RankContext& c) {
                const int other = 1 - c.rank();
                for (int round = 0; round < 50; ++round) {
                  Tensor large = Floats(c, kMany), small = large.Slice(kMany - kFew, kFew), taken = Floats(c, kFew, 0);
                  Work a = c.world().AllReduce(large);  // 2
                  Work b = c.world().AllReduce(small);  // 4, in large's last elements
                  Work d = c.world().AllReduce(large);  // 4 and 8
                  Work e = c.world().AllReduce(small);  // 16
                  const P2p swap[] = {{P2p::kSend, small, other}, {P2p::kRecv, taken, other}};
                  Work f = c.world().Batch(swap);
                  Work g = c.world().AllReduce(taken, ReduceOp::kMax);
                  g.Wait();
                  ExpectAll(large.Slice(0, kMany - kFew), 4);
                  ExpectAll(small, 16);
                  ExpectAll(taken, 16);
                }
                return std::string();
              }).status.ok());
}

TEST(SmallCollectives, ManyMayBeInFlightInSeveralGroups) {
  ASSERT_TRUE(RunRanks(4, [](RankContext& c) {
                auto sub = c.world().Split(c.rank() % 2, c.rank(), "sub");
                std::vector<Tensor> in_world, in_sub;
                std::vector<Work> works;
                for (int i = 0; i < 200; ++i) {
                  in_world.push_back(Floats(c, kFew, static_cast<float>(i)));
                  works.push_back(c.world().AllReduce(in_world.back()));
                  in_sub.push_back(Floats(c, kFew, static_cast<float>(i)));
                  works.push_back(sub->AllReduce(in_sub.back()));
                }
                while (!works.empty()) {
                  const size_t i = Work::WaitAny(works);
                  works[i].Wait();
                  works.erase(works.begin() + static_cast<std::ptrdiff_t>(i));
                }
                for (int i = 0; i < 200; ++i) {
                  ExpectAll(in_world[static_cast<size_t>(i)], static_cast<float>(4 * i));
                  ExpectAll(in_sub[static_cast<size_t>(i)], static_cast<float>(2 * i));
                }
                return std::string();
              }).status.ok());
}

TEST(SmallCollectives, WaitAnySleepsUntilOneIsDone) {
  std::atomic<bool> woken = false;
  ASSERT_TRUE(RunRanks(2, [&woken](RankContext& c) {
                Tensor t = Floats(c, kFew), never = Floats(c, kFew);
                if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                Work late = c.rank() == 0 ? c.world().Recv(never, 1, 5) : Work();
                auto alone = c.world().Split(0, c.rank(), "other");
                const Work works[] = {alone->AllReduce(t), late};
                if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
                EXPECT_EQ(Work::WaitAny(std::span(works, c.rank() == 0 ? 2 : 1)), 0u);
                ExpectAll(t, 2);
                if (c.rank() == 0) woken = true;
                while (!woken) std::this_thread::yield();
                if (c.rank() == 1) c.world().Send(never, 0, 5).Wait();
                late.Wait();
                return std::string();
              }).status.ok());
}

TEST(SmallCollectives, ThoseThatNobodyWaitsForAreDoneAtTheEnd) {
  const RunResult result = RunRanks(3, [](RankContext& c) {
    Tensor t = Floats(c, kFew);
    c.world().AllReduce(t);
    return std::string("returned");
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST(SmallCollectives, MismatchWithALargeOneNamesBoth) {
  for (int small_rank : {0, 1}) {
    const RunResult result = RunRanks(2, [small_rank](RankContext& c) -> std::string {
      Tensor t = Floats(c, c.rank() == small_rank ? kFew : kMany);
      c.world().AllReduce(t).Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(result),
                AllOf(HasSubstr("calls all_reduce(sum) of f32[10] (40 bytes)"),
                      HasSubstr("calls all_reduce(sum) of f32[100000] (400000 bytes)"), HasSubstr("collective 1")));
  }
}

// Rank 0 has issued its call and never waits for it.
TEST(SmallCollectives, MismatchIsFoundWhileTheOtherRankComputes) {
  for (const int64_t count : {kFew + 1, kMany}) {
    const RunResult result = RunRanks(2, [count](RankContext& c) -> std::string {
      Tensor t = Floats(c, c.rank() == 0 ? kFew : count);
      Work w = c.world().AllReduce(t);
      while (c.rank() == 0) {
        c.CheckInterrupt();
        std::this_thread::yield();
      }
      w.Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument) << result.status;
  }
}

// In the end it is true, and Wait says what went wrong.
TEST(SmallCollectives, TestingForEverEndsWhenNobodyComes) {
  const RunResult result = RunRanks(
      2,
      [](RankContext& c) -> std::string {
        Tensor t = Floats(c, kFew);
        if (c.rank() == 1) {
          while (true) {
            c.CheckInterrupt();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }
        Work w = c.world().AllReduce(t);
        while (!w.Test()) std::this_thread::yield();
        w.Wait();
        return "";
      },
      0.3);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(result), AllOf(HasSubstr("all_reduce(sum) of f32[10]"), HasSubstr("for rank 1, which")));
}

TEST(SmallCollectives, ARankThatFailsWithOneInFlightEndsTheOthers) {
  for (int round = 0; round < 20; ++round) {
    const RunResult result = RunRanks(3, [round](RankContext& c) -> std::string {
      for (int i = 0;; ++i) {
        Tensor t = Floats(c, kFew);
        Work w = c.world().AllReduce(t);
        if (c.rank() == 2 && i == round) throw std::runtime_error("in flight");
        w.Wait();
        ExpectAll(t, 3);
      }
    });
    EXPECT_EQ(result.status.message(), "rank 2: std::runtime_error: in flight");
  }
}

}  // namespace small_collectives_test
}  // namespace twofold
