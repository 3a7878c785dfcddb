// How a run ends when a rank fails: the first cause is named, nobody hangs, partial results come back.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "backends/host/interrupt.h"
#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deadline.h"

namespace twofold {
namespace failures_test {

using testing::AllOf;
using testing::HasSubstr;

// By a clock that stands still nobody times out: whoever ends was told to.
RunResult RunRanks(
    int ranks, const RankFunction& fn, double timeout_s = 60,
    const std::function<double()>& clock = [] { return 0.0; }) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  const auto fabric = MakeInMemoryFabric(spec, in_memory::GroupOptions{.clock = clock});
  return fabric->Run(ranks, fn);
}

Tensor Floats(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  std::fill_n(t.data<float>(), n, 1.0f);
  return t;
}
std::string Message(const RunResult& r) { return std::string(r.status.message()); }

// The time of a run, which goes by when somebody says so.
class HandClock {
 public:
  std::function<double()> Reader() const {
    return [this] { return static_cast<double>(tenths_.load()) / 10; };
  }
  // A tenth of a second by this clock, and a moment in which those who wait look at it.
  void Tick() {
    ++tenths_;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::atomic<int64_t> tenths_ = 0;
};

TEST(Failures, AnExceptionEndsEveryRankAndIsTheCause) {
  const RunResult result = RunRanks(4, [](RankContext& c) -> std::string {
    c.SetPartialResult("part of " + std::to_string(c.rank()));
    if (c.rank() == 2) throw std::runtime_error("injected");
    Tensor t = Floats(c, 10);
    c.world().AllReduce(t).Wait();
    return "whole";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(result.status.message(), "rank 2: std::runtime_error: injected");
  for (int r = 0; r < 4; ++r) EXPECT_EQ(result.results[static_cast<size_t>(r)], "part of " + std::to_string(r));
}

TEST(Failures, OthersAreToldWhichRankWasLostAndWhy) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    if (c.rank() == 1) throw std::runtime_error("injected");
    Tensor t = Floats(c, 10);
    try {
      c.world().Recv(t, 1).Wait();
    } catch (const PeerLost& lost) {
      return lost.what();
    }
    return "not told";
  });
  EXPECT_THAT(result.results[0], AllOf(HasSubstr("rank 0: lost rank 1"), HasSubstr("recv of f32[10] from rank 1"),
                                       HasSubstr("group world"), HasSubstr("injected")));
}

TEST(Failures, WhatIsNoStdExceptionIsACauseToo) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    if (c.rank() == 0) throw 7;
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Message(result), HasSubstr("rank 0"));
}

// The unwinding destroys a group with work that the other rank will never complete.
TEST(Failures, AnExceptionBesideUnfinishedWorkOfASubGroup) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    auto group = c.world().Split(0, c.rank(), "sub");
    Tensor t = Floats(c, 1000);
    if (c.rank() == 1) {
      Work w = group->AllReduce(t);
      throw std::logic_error("while in flight");
    }
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.message(), "rank 1: std::logic_error: while in flight");
}

TEST(Failures, OutOfMemoryKeepsItsCode) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    if (c.rank() == 1) throw OutOfMemory(1, "rank 1: out of memory");
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kResourceExhausted);
}

TEST(Failures, ReturningWhileOthersWaitLosesTheRank) {
  const RunResult result = RunRanks(3, [](RankContext& c) -> std::string {
    if (c.rank() == 1) return "early";
    Tensor t = Floats(c, 10);
    c.world().AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(result), AllOf(HasSubstr("lost rank 1"), HasSubstr("all_reduce(sum) of f32[10]"),
                                     HasSubstr("its function has returned")));
  EXPECT_EQ(result.results[1], "early");
}

TEST(Failures, ReturningWithWorkInFlightFinishesIt) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    Tensor t = Floats(c, 100000);
    Work w = c.world().AllReduce(t);
    return "done";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST(Failures, AnySourceNeedsSomebodyLeft) {
  const RunResult result = RunRanks(3, [](RankContext& c) -> std::string {
    if (c.rank() != 0) return "";
    Tensor t = Floats(c, 10);
    c.world().Recv(t, kAnySource).Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(result), HasSubstr("recv of f32[10] from any rank"));
}

void ExpectMismatch(const std::function<void(RankContext&)>& fn, const std::string& a, const std::string& b) {
  const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
    Tensor t = Floats(c, 1);
    c.world().AllReduce(t).Wait();
    fn(c);
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(result),
              AllOf(HasSubstr("group world"), HasSubstr("rank 0 calls " + a), HasSubstr("rank 1 calls " + b)));
}

TEST(Failures, MismatchOfKind) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Floats(c, 8), shard = Floats(c, 4);
        (c.rank() == 0 ? c.world().AllReduce(t) : c.world().AllGather(t, shard)).Wait();
      },
      "all_reduce(sum) of f32[8] (32 bytes)", "all_gather of f32[8] (32 bytes)");
}
TEST(Failures, MismatchOfCountNamesTheCall) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Floats(c, 10 + c.rank());
        c.world().AllReduce(t).Wait();
      },
      "all_reduce(sum) of f32[10] (40 bytes)", "all_reduce(sum) of f32[11] (44 bytes)");
}
TEST(Failures, MismatchOfType) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = c.device().NewTensor(Shape{4}, c.rank() == 0 ? DType::kF32 : DType::kI32, Category::kOther);
        c.world().Broadcast(t, 0).Wait();
      },
      "broadcast of f32[4]", "broadcast of i32[4]");
}
TEST(Failures, MismatchOfOperation) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Floats(c, 4);
        c.world().AllReduce(t, c.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax).Wait();
      },
      "all_reduce(sum)", "all_reduce(max)");
}
TEST(Failures, MismatchOfRoot) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Floats(c, 4);
        c.world().Broadcast(t, c.rank()).Wait();
      },
      "broadcast of f32[4] from root 0 (16 bytes)", "broadcast of f32[4] from root 1 (16 bytes)");
}
TEST(Failures, MismatchOfCountsInAllToAllV) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor in = Floats(c, 10), out = Floats(c, 10);
        const std::vector<int64_t> mine = {1, 1}, theirs = {c.rank() == 0 ? int64_t{1} : int64_t{3}, 1};
        c.world().AllToAllV(out, c.rank() == 0 ? mine : theirs, in, mine).Wait();
      },
      "all_to_all_v sending 1 elements", "all_to_all_v expecting 3 elements");
}
TEST(Failures, MismatchOfMessageSizes) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Floats(c, 10 - c.rank());
        (c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0)).Wait();
      },
      "send of 40 bytes", "recv of 36 bytes");
}

TEST(Failures, MismatchIsNoticedWhileAThirdRankComputes) {
  std::atomic<bool> over = false;
  const RunResult result = RunRanks(3, [&over](RankContext& c) -> std::string {
    if (c.rank() == 2) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      c.CheckInterrupt();
      return "not told";
    }
    Tensor t = Floats(c, 10 + c.rank());
    try {
      c.world().AllReduce(t).Wait();
    } catch (const CollectiveMismatch&) {
      over = true;
      throw;
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(result.results[2], "not told");
}

TEST(Failures, TimeOutNamesWhoIsMissingAndWhatItDoes) {
  HandClock clock;
  const RunResult result = RunRanks(
      3,
      [&clock](RankContext& c) -> std::string {
        Tensor t = Floats(c, 10);
        c.world().AllReduce(t).Wait();
        if (c.rank() == 2) {
          while (true) {  // computes for ever, but for looking after interrupts
            clock.Tick();
            c.CheckInterrupt();
          }
        }
        Tensor wide = Floats(c, 60), shard = Floats(c, 20);
        c.world().AllGather(wide, shard).Wait();
        return "";
      },
      2, clock.Reader());
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(result),
              AllOf(HasSubstr("all_gather of f32[60] (240 bytes), collective 2 of group world"),
                    HasSubstr("has waited 2 s (fabric.timeout_s) for rank 2, which is computing; its last "
                              "call was all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world")));
}

// Before the time is over nobody is given up.
TEST(Failures, ARankThatComesInTimeIsWaitedFor) {
  HandClock clock;
  const RunResult result = RunRanks(
      2,
      [&clock](RankContext& c) -> std::string {
        for (int i = 0; c.rank() == 1 && i < 50; ++i) clock.Tick();
        c.world().Barrier().Wait();
        return "";
      },
      60, clock.Reader());
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST(Failures, TimeOutOfADeadlockShowsBothSides) {
  HandClock clock;
  std::atomic<bool> over = false;
  std::atomic<int> begun = 0;
  std::thread ticks([&] {
    while (!over) begun == 2 ? clock.Tick() : std::this_thread::yield();
  });
  const RunResult result = RunRanks(
      2,
      [&begun](RankContext& c) -> std::string {
        Tensor t = Floats(c, 10);
        ++begun;
        c.world().Send(t, 1 - c.rank(), 3).Wait();
        return "";
      },
      20, clock.Reader());
  over = true;
  ticks.join();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(result), AllOf(HasSubstr("send of f32[10] to rank 0, tag 3"),
                                     HasSubstr("send of f32[10] to rank 1, tag 3"), HasSubstr("which is in")));
}

// By the machine's own clock: no sooner than it says.
TEST(Failures, TimeOutInASplit) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = RunRanks(
      2,
      [](RankContext& c) -> std::string {
        if (c.rank() == 0)
          c.world().Split(0, 0, "half");
        else
          c.world().Barrier().Wait();
        return "";
      },
      0.5, nullptr);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST(Failures, InterruptEndsWaitingAndComputingRanks) {
  std::atomic<int> started = 0;
  const RunResult result = RunRanks(3, [&started](RankContext& c) -> std::string {
    c.SetPartialResult("so far");
    ++started;
    if (c.rank() == 0) {
      while (started < 3) std::this_thread::yield();
      for (const int signal : {SIGTERM, SIGTERM, SIGINT}) kill(getpid(), signal);  // at once: one interrupt
    }
    if (c.rank() == 1) {
      while (true) {
        c.CheckInterrupt();
        std::this_thread::yield();
      }
    }
    Tensor t = Floats(c, 10);
    c.world().AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(result.results, testing::Each("so far"));
}

TEST(Failures, InterruptHandlerIsRestored) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before, after;
    sigaction(signal, nullptr, &before);
    EXPECT_TRUE(RunRanks(1, [](RankContext&) { return std::string(); }).status.ok());
    sigaction(signal, nullptr, &after);
    EXPECT_EQ(before.sa_handler, after.sa_handler);
  }
}

TEST(Failures, AnIgnoredInterruptStaysIgnored) {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  EXPECT_TRUE(RunRanks(1, [](RankContext& c) {
                kill(getpid(), SIGHUP);
                c.CheckInterrupt();
                return std::string();
              }).status.ok());
  EXPECT_EQ(std::signal(SIGHUP, before), SIG_IGN);
}

TEST(Failures, ALaterInterruptKills) {
  const pid_t child = fork();
  if (child == 0) {
    const host::InterruptScope scope;
    kill(getpid(), SIGTERM);
    std::this_thread::sleep_for(host::kSameInterrupt + std::chrono::milliseconds(100));
    kill(getpid(), SIGTERM);
    _exit(host::InterruptScope::Raised() ? 1 : 2);
  }
  const int status = AwaitProcess(child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(Failures, ARunAfterAFailedOneIsSound) {
  const RankFunction throws = [](RankContext&) -> std::string { throw std::runtime_error("x"); };
  EXPECT_FALSE(RunRanks(3, throws).status.ok());
  EXPECT_TRUE(RunRanks(3, [](RankContext& c) {
                c.world().Barrier().Wait();
                return std::string();
              }).status.ok());
}

// Buffers in use by other ranks' communication threads must outlive them, however the run ends.
TEST(Failures, FailingAmidTrafficIsSafe) {
  for (int round = 0; round < 30; ++round) {
    const RunResult result = RunRanks(4, [round](RankContext& c) -> std::string {
      auto sub = c.world().Split(c.rank() % 2, c.rank(), "sub");
      for (int i = 0;; ++i) {
        Tensor a = Floats(c, 20000), b = Floats(c, 20000), d = Floats(c, 5000);
        Work x = c.world().AllReduce(a), y = sub->AllReduce(b);
        if (c.rank() == 3 && i == round % 5) throw std::runtime_error("amid");
        x.Wait();
        if (i % 2 == 0) y.Wait();
        Tensor e = Floats(c, 5000);
        const P2p swap[] = {{P2p::kSend, d, 1 - sub->rank()}, {P2p::kRecv, e, 1 - sub->rank()}};
        sub->Batch(swap).Wait();
      }
    });
    EXPECT_EQ(result.status.message(), "rank 3: std::runtime_error: amid");
  }
}

// A rank that computes for ever: the others' time-out ends the run, its thread is left alone.
TEST(Failures, ARankThatHangsIsNamedAndLeftBehind) {
  static std::atomic<bool> over = false, left = false;
  static HandClock clock;
  const RunResult result = RunRanks(
      2,
      [](RankContext& c) -> std::string {
        c.SetPartialResult("so far");
        Tensor t = Floats(c, 10);
        c.world().AllReduce(t).Wait();
        if (c.rank() == 1) {
          while (!over) clock.Tick();
          left = true;
        } else {
          c.world().AllReduce(t).Wait();
        }
        return "";
      },
      2, clock.Reader());
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(Message(result),
              AllOf(HasSubstr("rank 0: all_reduce(sum) of f32[10] (40 bytes), collective 2 of group world"),
                    HasSubstr("for rank 1, which is computing")));
  EXPECT_EQ(result.results[0], "so far");
  over = true;
  for (int i = 0; i < 20000 && !left; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(left);
}

// Nor does who interrupts a run wait for such ranks, however many there are; what they had done before is kept.
TEST(Failures, AnInterruptDoesNotWaitForRanksThatComputeOn) {
  constexpr int kRanks = 3;
  static std::atomic<bool> over = false;
  static std::atomic<int> computing = 0, left = 0;
  std::chrono::steady_clock::time_point interrupted;
  std::thread interrupt([&interrupted] {
    while (computing < kRanks) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    interrupted = std::chrono::steady_clock::now();
    kill(getpid(), SIGTERM);
  });
  const RunResult result = RunRanks(kRanks, [](RankContext& c) -> std::string {
    c.SetPartialResultSource([] { return std::string("asked for amid a step"); },
                             [] { return std::string("of the first step"); });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    c.CheckInterrupt();
    ++computing;
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++left;
    return "";
  });
  interrupt.join();
  EXPECT_LT(std::chrono::steady_clock::now() - interrupted,
            std::chrono::seconds(2));  // 1 s, and what a busy machine adds
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(result.results, testing::Each("of the first step"));
  over = true;
  for (int i = 0; i < 20000 && left < kRanks; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(left, kRanks);
}

TEST(Failures, ARankThatCallsExitIsACause) {
  for (int status : {0, 3}) {
    const RunResult result = RunRanks(3, [status](RankContext& c) -> std::string {
      c.SetPartialResult("so far");
      Tensor t = Floats(c, 10);
      c.world().AllReduce(t).Wait();
      if (c.rank() == 1) exit(status);
      c.world().AllReduce(t).Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(
        Message(result),
        AllOf(HasSubstr("rank 1: called exit(" + std::to_string(status) + ")"),
              HasSubstr("its last call was all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world")));
    EXPECT_THAT(result.results, testing::Each("so far"));
  }
}

}  // namespace failures_test
}  // namespace twofold
