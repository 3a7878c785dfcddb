// How a simulated run ends when ranks wait for what never comes, hang, or end the process: who waits for what is told,
// and who is at fault is named.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/base/errors.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/seed.h"
#include "tests/unit/simulated/failure_rig.h"

namespace twofold {
namespace waits_test {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using Code = absl::StatusCode;

class Waits : public FailureRig {};
INSTANTIATE_TEST_SUITE_P(, Waits, AllSettings(), NameOf);

// What takes as long as it says: of a simulated rank that calls nothing, only the machine's clock tells.
class HangingRanks : public FailureRig {};
INSTANTIATE_TEST_SUITE_P(, HangingRanks, Full() ? AllSettings() : OneOfEachKind(), NameOf);

// ---- Deadlocks ----

TEST_P(Waits, ReturningWhileOthersWaitIsADeadlock) {
  const RunResult result = Run(4, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    c.world().AllReduce(t).Wait();
    if (c.rank() == 1) return "early";
    c.world().AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(Message(result),
            "deadlock: ranks 0, 2, 3 wait for all_reduce(sum) of f32[10] (40 bytes), collective 2 of group world "
            "(missing: rank 1); rank 1 has returned");
  EXPECT_EQ(result.results[1], "early");
}

TEST_P(Waits, OneCollectiveTooManyIsADeadlock) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    c.world().AllReduce(t).Wait();
    if (c.rank() == 0) c.world().AllReduce(t);
    return "";
  });
  EXPECT_EQ(Message(result),
            "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 2 of group world (missing: "
            "rank 1), "
            "which it left unfinished; rank 1 has returned");
}

TEST_P(Waits, ADeadlockTellsWhatTheMissingOnesDo) {
  const RunResult result = Run(3, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10), u = Zeros(c, 6);
    c.SetPartialResult("so far");
    if (c.rank() == 0) c.world().AllReduce(t).Wait();
    if (c.rank() == 1) c.world().Recv(u, kAnySource, 7).Wait();
    if (c.rank() == 2) c.world().Split(0, 0, "never");
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(
      Message(result),
      "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world (missing: ranks "
      "1, 2); "
      "rank 1 waits for recv of f32[6] from any rank, tag 7 (24 bytes), message 1 of group world (missing: a sender); "
      "rank 2 waits for split 1 of group world (missing: ranks 0, 1)");
  EXPECT_THAT(result.results, Each("so far"));
}

TEST_P(Waits, MessagesThatNeverMeetShowTheirTags) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    (c.rank() == 0 ? c.world().Send(t, 1, 3) : c.world().Recv(t, 0, 4)).Wait();
    return "";
  });
  EXPECT_EQ(
      Message(result),
      "deadlock: rank 0 waits for send of f32[10] to rank 1, tag 3 (40 bytes), message 1 of group world (missing: rank "
      "1); "
      "rank 1 waits for recv of f32[10] from rank 0, tag 4 (40 bytes), message 1 of group world (missing: rank 0)");
}

// Groups whose collectives are waited for in different orders.
TEST_P(Waits, ADeadlockAcrossGroupsNamesBoth) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    auto a = c.world().Split(0, 0, "a"), b = c.world().Split(0, 0, "b");
    Tensor t = Zeros(c, 10), u = Zeros(c, 20);
    if (c.rank() == 0) a->AllReduce(t).Wait();
    b->AllReduce(u).Wait();
    if (c.rank() == 1) a->AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(
      Message(result),
      "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 1 of group a (ranks 0, 1) "
      "(missing: rank 1); rank 1 waits for all_reduce(sum) of f32[20] (80 bytes), collective 1 of group b (ranks 0, 1) "
      "(missing: rank 0)");
}

// Who waits for a later call, or for a stream that waits, is told what holds it up.
TEST_P(Waits, WaitingIndirectlyNamesTheCallThatIsStuck) {
  const RunResult result = Run(3, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10), u = Zeros(c, 20);
    if (c.rank() == 0) {
      c.world().AllReduce(t);
      c.world().AllReduce(u).Wait();
    }
    if (c.rank() == 1) {
      c.world().AllReduce(t).WaitOn(c.device().compute());
      c.device().compute().Synchronize();
    }
    if (c.rank() == 2) {
      std::vector<Work> works = {c.world().Recv(t, 0, 1)};
      works.push_back(c.world().Recv(u, 1, 2));
      Work::WaitAny(works);
    }
    return "";
  });
  const std::string stuck = "all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world (missing: rank 2)";
  const std::string recv = "recv of f32[10] from rank 0, tag 1 (40 bytes), message 1 of group world (missing: rank 0)";
  EXPECT_THAT(
      Message(result),
      AllOf(
          StartsWith("deadlock: rank 0 waits for " + stuck +
                     ", before all_reduce(sum) of f32[20] (80 bytes), collective 2 of group world; rank 1 waits for "),
          HasSubstr(stuck + "; rank 2 waits for any of " + recv + " or " + recv +
                    ", before recv of f32[20] from rank 1")));
}

TEST_P(Waits, AtMost64WaitsAreTold) {
  const RunResult result = RunRanks({"Many", kStar, GetParam().data}, 100, [](RankContext& c) -> std::string {
    if (c.rank() == 99) return "";
    Tensor t = Zeros(c, 1 + c.rank());
    if (c.rank() < 10)
      c.world().Barrier().Wait();
    else
      c.world().Recv(t, 99).Wait();
    return "";
  });
  const std::string message = Message(result);
  EXPECT_THAT(message,
              AllOf(StartsWith("deadlock: ranks 0-9 wait for barrier (0 bytes), collective 1 of group world (missing: "
                               "ranks 10-99); rank 10 waits for recv of f32[11] from rank 99"),
                    HasSubstr("; rank 72 waits for recv of f32[73]"), testing::Not(HasSubstr("rank 73 waits")),
                    testing::EndsWith("; and 26 more ranks; rank 99 has returned")));
}

// ---- The end of the process ----

TEST_P(Waits, TheRankThatExitsIsNamed) {
  for (int exit_status : {3, 0}) {
    const RunResult result = Run(3, [exit_status](RankContext& c) -> std::string {
      Tensor t = Zeros(c, 10);
      c.world().AllReduce(t).Wait();
      c.device().Launch(c.device().compute(), ops::Fill{t, 0});
      if (c.rank() == 1) exit(exit_status);
      c.world().Barrier().Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), Code::kInternal);
    EXPECT_EQ(
        Message(result),
        StrCat(
            "rank 1: the simulation's process ended with exit status ", exit_status,
            " while this rank was running; its last call was all_reduce (40 bytes), collective 1 of group world; since "
            "then it launched 1 operation, fill"));
    EXPECT_EQ(result.results, std::vector<std::string>(3));
  }
}

TEST_P(Waits, TheRankThatASignalEndsIsNamed) {
  for (const auto& [signal, name] : {std::pair(SIGKILL, "SIGKILL (Killed)"), std::pair(SIGABRT, "SIGABRT (Aborted)"),
                                     std::pair(SIGSEGV, "SIGSEGV (Segmentation fault)")}) {
    const RunResult result = Run(3, [signal = signal](RankContext& c) -> std::string {
      if (c.rank() == 0) c.world().Recv(*std::make_unique<Tensor>(Zeros(c, 5)), 2);
      if (c.rank() == 2) {
        ::signal(signal, SIG_DFL);  // sanitizers have handlers of their own
        raise(signal);
      }
      c.world().Barrier().Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), Code::kInternal);
    EXPECT_EQ(Message(result), StrCat("rank 2: the simulation's process was ended by ", name,
                                      " while this rank was running; it has not communicated yet"));
  }
}

// ---- Hangs ----

TEST_P(HangingRanks, ARankThatComputesForEverIsNamedAfterTheTimeOut) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = Run(
      3,
      [](RankContext& c) -> std::string {
        Tensor t = Zeros(c, 10);
        c.world().AllReduce(t).Wait();
        volatile uint64_t spins = 0;
        while (c.rank() == 2) spins = spins + 1;
        c.world().Barrier().Wait();
        return "";
      },
      0.5);
  EXPECT_EQ(result.status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(Message(result),
            "rank 2 has called nothing for 0.5 s (fabric.timeout_s); its last call was all_reduce (40 bytes), "
            "collective 1 of group world");
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

// It goes on after it has woken another rank, which then had its turn.
TEST_P(HangingRanks, TheOneThatHangsIsNamedWhoeverRanMeanwhile) {
  const RunResult result = Run(
      2,
      [](RankContext& c) -> std::string {
        auto pair = c.world().Split(0, 0, "pair");
        if (c.rank() == 0) pair->Barrier().Wait();
        Work work = c.rank() == 1 ? pair->Barrier() : Work();
        while (c.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
        c.world().Barrier().Wait();
        return "";
      },
      0.5);
  EXPECT_EQ(Message(result),
            "rank 1 has called nothing for 0.5 s (fabric.timeout_s); its last call was barrier (0 bytes), collective 1 "
            "of group "
            "pair (ranks 0, 1)");
}

TEST_P(HangingRanks, AHangAfterASplitNamesIt) {
  const RunResult result = Run(
      2,
      [](RankContext& c) -> std::string {
        auto half = c.world().Split(c.rank(), 0, "half");
        while (c.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(1));
        return "";
      },
      0.5);
  EXPECT_EQ(Message(result),
            "rank 1 has called nothing for 0.5 s (fabric.timeout_s); its last call was split 1 of group world");
}

TEST_P(HangingRanks, ARankThatSleepsForEverIsNamedAfterTheTimeOut) {
  const RunResult result = Run(
      2,
      [](RankContext& c) -> std::string {
        while (c.rank() == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          c.CheckInterrupt();  // to look after interrupts is to call nothing
        }
        return "";
      },
      0.5);
  EXPECT_EQ(result.status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(Message(result), "rank 0 has called nothing for 0.5 s (fabric.timeout_s); it has not communicated yet");
}

// Each step takes less than the time-out, all of them together much longer.
TEST_P(HangingRanks, ALongRunThatLivesIsLeftAlone) {
  const RunResult result = Run(
      2,
      [](RankContext& c) -> std::string {
        Tensor t = Zeros(c, 10);
        for (int i = 0; i < 8; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          if (i % 2 == 0)
            c.world().AllReduce(t).Wait();
          else
            c.device().Launch(c.device().compute(), ops::Fill{t, 0});
        }
        return "whole";
      },
      0.8);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, Each("whole"));
}

// The arithmetic of one operation may take longer than the time-out.
TEST(WaitsOfRealRanks, ALongOperationIsNoHang) {
  const RunResult result = RunRanks(
      {"Long", kHost, spec::Simulated::REAL}, 1,
      [](RankContext& c) -> std::string {
        constexpr int64_t kSide = 4096;  // 137 GFLOP
        auto square = [&c] { return Zeros(c, kSide * kSide).View(Shape{kSide, kSide}); };
        const Tensor a = square(), b = square(), out = square();
        const auto start = std::chrono::steady_clock::now();
        c.device().Launch(c.device().compute(), ops::MatMul{.a = a, .b = b, .out = out});
        return std::to_string(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      },
      0.15);
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_GT(std::stod(result.results[0]), 0.3) << "too short to tell";
}

}  // namespace waits_test
}  // namespace twofold
