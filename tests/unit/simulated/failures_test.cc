// How a simulated run ends when a rank fails: the first cause is named with rank, call, group, sequence number and
// sizes, nobody hangs, partial results come back, and neither the process of the simulation nor a file is left behind.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/host/interrupt.h"
#include "backends/simulated/child.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deadline.h"
#include "tests/unit/simulated/failure_rig.h"

namespace twofold {
namespace failures_test {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using Code = absl::StatusCode;

class Failures : public FailureRig {};
INSTANTIATE_TEST_SUITE_P(, Failures, AllSettings(), NameOf);

// ---- Exceptions ----

TEST_P(Failures, AnExceptionEndsEveryRankAndIsTheCause) {
  const RunResult result = Run(4, [](RankContext& c) -> std::string {
    c.SetPartialResult("part of " + std::to_string(c.rank()));
    if (c.rank() == 2) throw std::runtime_error("injected");
    Tensor t = Zeros(c, 10);
    c.world().AllReduce(t).Wait();
    return "whole";
  });
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_EQ(Message(result), "rank 2: std::runtime_error: injected");
  for (int r = 0; r < 4; ++r) EXPECT_EQ(result.results[static_cast<size_t>(r)], "part of " + std::to_string(r));
}

TEST_P(Failures, OthersAreToldWhichRankWasLostInWhatAndWhy) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    if (c.rank() == 1) throw std::runtime_error("injected");
    try {
      c.world().Recv(t, 1, 5).Wait();
    } catch (const PeerLost& lost) {
      return lost.what();
    }
    return "not told";
  });
  EXPECT_EQ(result.results[0],
            "rank 0: lost rank 1 in recv of f32[10] from rank 1, tag 5 (40 bytes), message 1 of group world (missing: "
            "rank 1): "
            "rank 1: std::runtime_error: injected");
}

// ---- Elastic runs: losses are survived, if some member has finished; nothing else is ----

class ElasticFailures : public FailureRig {
 protected:
  RunResult RunElastic(int ranks, const RankFunction& fn) {
    return RunRanks(GetParam(), ranks, fn, 60, spec::Simulated::OFF, true);
  }
};
INSTANTIATE_TEST_SUITE_P(, ElasticFailures, OneOfEachKind(), NameOf);

TEST_P(ElasticFailures, ALossBesideAMemberThatHasFinishedIsSurvived) {
  const RunResult result = RunElastic(2, [](RankContext& c) -> std::string {
    if (c.rank() == 1) throw std::runtime_error("injected");
    return "finished";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "finished");
}

TEST_P(ElasticFailures, AMismatchEndsTheRunThoughAnotherMemberHasFinished) {
  const RunResult result = RunElastic(3, [](RankContext& c) -> std::string {
    const auto pair = c.everyone().Split(c.rank() > 0 ? 0 : -1, c.rank(), "pair");
    if (c.rank() == 0) return "finished";
    Tensor t = Zeros(c, c.rank());
    pair->AllReduce(t).Wait();
    return "summed";
  });
  EXPECT_EQ(result.results[0], "finished");
  EXPECT_EQ(result.status.code(), Code::kInvalidArgument) << result.status;
  EXPECT_THAT(Message(result), HasSubstr("collective mismatch in group pair"));
}

TEST_P(ElasticFailures, MemoryThatRunsOutEndsTheRunThoughAnotherMemberHasFinished) {
  const RunResult result = RunElastic(2, [](RankContext& c) -> std::string {
    if (c.rank() == 0) return "finished";
    c.device().NewTensor(Shape{int64_t{1} << 40}, DType::kF32, Category::kOther);
    return "allocated 4 TiB";
  });
  EXPECT_EQ(result.results[0], "finished");
  EXPECT_EQ(result.status.code(), Code::kResourceExhausted) << result.status;
  EXPECT_THAT(Message(result), HasSubstr("rank 1: out of memory"));
}

// Once the run has failed, what ranks issue is refused: the operands of those that failed are gone.
TEST_P(Failures, WhoeverComesTooLateIsToldAsItIssues) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    if (c.rank() == 0) {
      Tensor t = Zeros(c, 100000);
      Work w = c.world().AllReduce(t);
      throw std::runtime_error("injected");
    }
    Tensor t = Zeros(c, 100000);
    try {
      c.world().AllReduce(t);
    } catch (const PeerLost& lost) {
      return lost.what();
    }
    return "not told";
  });
  EXPECT_EQ(Message(result), "rank 0: std::runtime_error: injected");
  EXPECT_THAT(result.results[1],
              StartsWith("rank 1: lost rank 0 in all_reduce(sum) of f32[100000] (400000 bytes), collective 1"));
}

TEST_P(Failures, WhatIsNoStdExceptionIsACauseToo) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    if (c.rank() == 0) throw 7;
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_EQ(Message(result), "rank 0: an exception that does not derive from std::exception");
}

// The unwinding destroys a group with work that the other rank will never complete.
TEST_P(Failures, AnExceptionBesideUnfinishedWorkOfASubGroup) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    auto group = c.world().Split(0, c.rank(), "sub");
    Tensor t = Zeros(c, 1000);
    if (c.rank() == 1) {
      Work w = group->AllReduce(t);
      throw std::logic_error("while in flight");
    }
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(Message(result), "rank 1: std::logic_error: while in flight");
}

TEST_P(Failures, UnfinishedWorkIsLostWhoeverCatchesTheException) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    try {
      auto group = c.world().Split(0, c.rank(), "sub");
      Tensor t = Zeros(c, 1000);
      if (c.rank() == 1) {
        Work w = group->AllReduce(t);
        throw std::logic_error("while in flight");
      }
      c.world().Barrier().Wait();
    } catch (const std::logic_error&) {
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_EQ(Message(result), "rank 1: an exception left unfinished work in group sub (ranks 0, 1)");
}

TEST_P(Failures, OutOfMemoryKeepsItsCode) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    if (c.rank() == 1) throw OutOfMemory(1, "rank 1: out of memory");
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kResourceExhausted);
  EXPECT_EQ(Message(result), "rank 1: out of memory");
}

// ---- Mismatches ----

TEST_P(Failures, MismatchOfKind) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 8), shard = Zeros(c, 4);
        (c.rank() == 0 ? c.world().AllReduce(t) : c.world().AllGather(t, shard)).Wait();
      },
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[8] (32 bytes), rank 1 calls all_gather of f32[8] (32 "
      "bytes)");
}
TEST_P(Failures, MismatchOfCount) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 10 + c.rank());
        c.world().AllReduce(t).Wait();
      },
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[10] (40 bytes), rank 1 calls all_reduce(sum) of "
      "f32[11] (44 bytes)");
}
TEST_P(Failures, MismatchOfCountOfAShard) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor out = Zeros(c, 2 * (4 + c.rank())), shard = Zeros(c, 4 + c.rank());
        c.world().Gather(out, shard, 0).Wait();
      },
      "world, collective 2: rank 0 calls gather of f32[8] to root 0 (32 bytes), rank 1 calls gather of f32[5] to root "
      "0 (20 bytes)");
}
TEST_P(Failures, MismatchOfType) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 4, c.rank() == 0 ? DType::kF32 : DType::kBF16);
        c.world().Broadcast(t, 0).Wait();
      },
      "world, collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes), "
      "rank 1 calls broadcast of bf16[4] from root 0 (8 bytes)");
}
TEST_P(Failures, MismatchOfOperation) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 4);
        c.world().AllReduce(t, c.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax).Wait();
      },
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[4] (16 bytes), rank 1 calls all_reduce(max) of f32[4] "
      "(16 bytes)");
}
TEST_P(Failures, MismatchOfRoot) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 4);
        c.world().Broadcast(t, c.rank()).Wait();
      },
      "world, collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes), "
      "rank 1 calls broadcast of f32[4] from root 1 (16 bytes)");
}
TEST_P(Failures, MismatchOfOrder) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 4);
        if (c.rank() == 0) c.world().Barrier();
        Work w = c.world().AllReduce(t);
        if (c.rank() == 1) c.world().Barrier();
        w.Wait();
      },
      "world, collective 2: rank 0 calls barrier (0 bytes), rank 1 calls all_reduce(sum) of f32[4] (16 bytes)");
}
TEST_P(Failures, MismatchOfCountsInAllToAllV) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor in = Zeros(c, 10), out = Zeros(c, 10);
        const std::vector<int64_t> mine = {1, 1}, theirs = {c.rank() == 0 ? int64_t{1} : int64_t{3}, 1};
        c.world().AllToAllV(out, c.rank() == 0 ? mine : theirs, in, mine).Wait();
      },
      "world, collective 2: rank 0 calls all_to_all_v sending 1 elements (4 bytes) to rank 1 of the group, "
      "rank 1 calls all_to_all_v expecting 3 elements (12 bytes) from rank 0 of the group");
}
TEST_P(Failures, MismatchOfMessageSizes) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 10 - c.rank());
        (c.rank() == 0 ? c.world().Send(t, 1, 3) : c.world().Recv(t, 0, 3)).Wait();
      },
      "world, message 1: rank 0 calls send of f32[10] to rank 1, tag 3 (40 bytes), "
      "rank 1 calls recv of f32[9] from rank 0, tag 3 (36 bytes)");
}
TEST_P(Failures, MismatchOfMessageTypesNamesBothSequenceNumbers) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 10, c.rank() == 0 ? DType::kF32 : DType::kI32), u = Zeros(c, 10);
        if (c.rank() == 1) {
          const P2p swap[] = {{P2p::kRecv, u, 0, 1}, {P2p::kRecv, t, 0, 2}};
          return c.world().Batch(swap).Wait();
        }
        c.world().Send(u, 1, 1).Wait();
        c.world().Send(t, 1, 2).Wait();
      },
      "world, message 2 of rank 0 and message 1 of rank 1: rank 0 calls send of f32[10] to rank 1, tag 2 (40 bytes), "
      "rank 1 calls recv of i32[10] from rank 0, tag 2 (40 bytes)");
}

TEST_P(Failures, MismatchInASubGroupNamesRanksOfTheWorldAndTheGroups) {
  const RunResult result = Run(4, [](RankContext& c) -> std::string {
    auto half = c.world().Split(c.rank() % 2, -c.rank(), "half");
    Tensor t = Zeros(c, c.rank() == 3 ? 7 : 8);
    half->AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Message(result),
            "collective mismatch in group half (ranks 3, 1), collective 1: rank 1 calls all_reduce(sum) of f32[8] (32 "
            "bytes), "
            "rank 3 calls all_reduce(sum) of f32[7] (28 bytes)");
}

// ---- Interrupts, and the death of the parent ----

// As senders do it: to the process, to all of its group, to every process of a job.
TEST_P(Failures, AnInterruptEndsTheRanksInOrder) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, SIG_DFL);  // nohup may have started the test
    const RunResult result = Run(2, [signal](RankContext& c) -> std::string {
      c.SetPartialResult("so far");
      if (c.rank() == 0) {
        for (const pid_t who : {getppid(), getppid(), getpid()}) {
          kill(who, signal);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        while (true) {
          c.CheckInterrupt();
          std::this_thread::yield();
        }
      }
      c.world().Barrier().Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), Code::kCancelled);
    EXPECT_EQ(Message(result), "rank 0: interrupted");
    EXPECT_THAT(result.results, Each("so far"));
    std::signal(signal, before);
  }
}

// By the parent and the child; another signal is passed on all the same.
TEST_P(Failures, AnIgnoredInterruptStaysIgnored) {
  const auto hang_up = std::signal(SIGHUP, SIG_IGN), interrupt = std::signal(SIGINT, SIG_IGN);
  const auto on_signal = [this](int signal) {
    return Run(1, [signal](RankContext& c) -> std::string {
      for (const pid_t who : {getppid(), getpid()}) kill(who, signal);
      while (signal == SIGTERM) c.CheckInterrupt();
      c.CheckInterrupt();
      return "";
    });
  };
  EXPECT_TRUE(on_signal(SIGHUP).status.ok());
  EXPECT_EQ(on_signal(SIGTERM).status.code(), Code::kCancelled);
  EXPECT_EQ(std::signal(SIGHUP, hang_up), SIG_IGN);
  EXPECT_EQ(std::signal(SIGINT, interrupt), SIG_IGN);
}

// Before there is a simulation to end: it is ended once there is one.
TEST_P(Failures, AnInterruptBeforeTheSimulationEndsIt) {
  const host::InterruptScope interrupt;
  kill(getpid(), SIGTERM);
  const RunResult result = Run(1, [](RankContext& c) -> std::string {
    while (true) c.CheckInterrupt();
  });
  EXPECT_EQ(result.status.code(), Code::kCancelled);
}

TEST_P(Failures, ASecondInterruptEndsARankThatLooksAfterNone) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    while (c.rank() == 0) {
      kill(getppid(), SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kCancelled);
  EXPECT_EQ(Message(result), "interrupted twice: the simulation was ended at once");
}

// Two seconds in all, with what is then to be written; what ranks had done before is kept.
TEST(SimulatedInterrupt, EndsARankThatComputesOn) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = RunRanks(
      {"Interrupted", kStar, spec::Simulated::SYMBOLIC}, 3,
      [](RankContext& c) -> std::string {
        c.SetPartialResult(StrCat("of the first step of rank ", c.rank()));
        if (c.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        c.world().Barrier().Wait();
        c.CheckInterrupt();
        c.world().Barrier().Wait();
        c.SetPartialResult("not between steps");
        if (c.rank() == 0) kill(getppid(), SIGTERM);
        for (std::atomic<int> work = 0; c.rank() == 0; ++work) {
        }
        c.world().Barrier().Wait();
        return "";
      },
      /*timeout_s=*/4);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(result.status.code(), Code::kCancelled) << result.status;
  EXPECT_THAT(Message(result), HasSubstr("interrupted: the simulation did not reach the end of a step within 1 s"));
  EXPECT_THAT(result.results, testing::ElementsAre("of the first step of rank 0", "of the first step of rank 1",
                                                   "of the first step of rank 2"));
}

// The system's own signal at a parent's death comes at the end of the thread that forked.
TEST(SimulatedChild, DoesNotEndWithTheThreadThatForkedIt) {
  int started[2], said[2];
  ASSERT_EQ(pipe(started), 0);
  ASSERT_EQ(pipe(said), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(said[0]);
    std::thread forks([&] {
      (void)RunInChild([&] {
        for (const int end : {started[1], said[1]}) {
          if (write(end, ".", 1) != 1) _exit(1);
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
        return outcome::Outcome();
      });
    });
    char byte;
    if (read(started[0], &byte, 1) != 1) _exit(1);
    pthread_cancel(forks.native_handle());
    forks.join();
    close(said[1]);
    while (true) pause();
  }
  close(said[1]);
  char byte = 0;
  EXPECT_EQ(read(said[0], &byte, 1), 1) << "it has ended before it could say anything";
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const int end : {started[0], started[1], said[0]}) close(end);
}

TEST_P(Failures, TheSimulationDiesWithItsParent) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the parent leaves behind comes to us
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    Run(1, [&ends](RankContext&) -> std::string {
      const pid_t self = getpid();
      if (write(ends[1], &self, sizeof self) != sizeof self) _exit(1);
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    });
    _exit(0);
  }
  close(ends[1]);
  pid_t simulation = 0;
  ASSERT_EQ(read(ends[0], &simulation, sizeof simulation), static_cast<ssize_t>(sizeof simulation));
  kill(parent, SIGKILL);
  AwaitProcess(parent, "the parent");
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "its end of the pipe closes as it dies";
  const int status = AwaitProcess(simulation, "the simulation");
  EXPECT_TRUE(WIFSIGNALED(status));
  close(ends[0]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_P(Failures, ARunAfterFailedOnesIsSound) {
  EXPECT_FALSE(Run(2, [](RankContext&) -> std::string { throw std::runtime_error("x"); }).status.ok());
  EXPECT_FALSE(Run(2, [](RankContext&) -> std::string { exit(0); }).status.ok());
  EXPECT_TRUE(Run(3, [](RankContext& c) {
                c.world().Barrier().Wait();
                return std::string();
              }).status.ok());
}

// What goes on when a rank fails must not touch what the rank has taken with it, however the run ends.
TEST_P(Failures, FailingAmidTrafficIsSafe) {
  for (int round = 0; round < 5; ++round) {
    const RunResult result = Run(4, [round](RankContext& c) -> std::string {
      auto sub = c.world().Split(c.rank() % 2, c.rank(), "sub");
      for (int i = 0;; ++i) {
        Tensor a = Zeros(c, 20000), b = Zeros(c, 20000), d = Zeros(c, 5000), e = Zeros(c, 5000);
        Work x = c.world().AllReduce(a), y = sub->AllReduce(b);
        if (c.rank() == 3 && i == round) throw std::runtime_error("amid");
        x.Wait();
        if (i % 2 == 0) y.Wait();
        const P2p swap[] = {{P2p::kSend, d, 1 - sub->rank()}, {P2p::kRecv, e, 1 - sub->rank()}};
        sub->Batch(swap).Wait();
      }
    });
    EXPECT_EQ(Message(result), "rank 3: std::runtime_error: amid");
  }
}

// ---- Folded ranks: one actor stands for all, so that what is found is what all do alike ----

class FoldedFailures : public testing::Test {
 protected:
  RunResult Run(int ranks, const RankFunction& fn, double timeout_s = 60) {
    return RunRanks({"Folded", kStar, spec::Simulated::SYMBOLIC}, ranks, fn, timeout_s, spec::Simulated::AUTO);
  }
};

TEST_F(FoldedFailures, AnExceptionOfAllIsTheFirstOnes) {
  const RunResult result = Run(4, [](RankContext& c) -> std::string {
    c.SetPartialResult("so far");
    throw std::runtime_error("injected");
  });
  EXPECT_EQ(Message(result), "rank 0: std::runtime_error: injected");
  EXPECT_THAT(result.results, testing::AllOf(testing::SizeIs(4), Each("so far")));
  EXPECT_THAT(result.notes, testing::Contains("ranks are folded: rank 0 stands for all 4"));
}

TEST_F(FoldedFailures, AnExitAndAHangAreFound) {
  const RunResult exited = Run(4, [](RankContext& c) -> std::string {
    c.world().Barrier().Wait();
    exit(3);
  });
  EXPECT_EQ(Message(exited),
            "rank 0: the simulation's process ended with exit status 3 while this rank was running; its last call was "
            "barrier (0 bytes), "
            "collective 1 of group world");
  const RunResult hung = Run(
      4,
      [](RankContext&) -> std::string {
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      0.5);
  EXPECT_EQ(hung.status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(hung.notes, testing::Contains("ranks are folded: rank 0 stands for all 4"));
}

// ---- The way of an outcome from the simulation's process ----

// One string in many places: what it would take is told without having it.
TEST(RunInChild, RefusesAnOutcomeThatIsTooLargeForAMessage) {
  const auto outcome = RunInChild([] {
    auto* const megabyte = new std::string(1 << 20, 'x');
    outcome::Outcome large;
    for (int i = 0; i < 2200; ++i) large.mutable_results()->UnsafeArenaAddAllocated(megabyte);
    large.set_code(0);
    return large;
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->code(), static_cast<int>(Code::kInternal));
  EXPECT_THAT(outcome->message(), AllOf(HasSubstr("the simulation's outcome takes 23068"),
                                        HasSubstr("trace fewer ranks or steps (trace.ranks, trace.last_steps)")));
}

// Writes to the pipe in the place of the outcome, and ends well. Pipes that this process was started with do not close
// on exec.
outcome::Outcome LeaveInPipe(std::string_view bytes) {
  for (int fd = 3; fd < 256; ++fd) {
    struct stat what;
    const bool own = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    if (own && fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
      (void)!write(fd, bytes.data(), bytes.size());
  }
  _exit(0);
}

TEST(RunInChild, RefusesAnOutcomeThatIsCutShortOrNone) {
  EXPECT_THAT(std::string(RunInChild([] { return LeaveInPipe("."); }).status().message()),
              HasSubstr("is truncated: 1 bytes"));
  const std::string cut({'\7', 0, 0, 0, 0, 0, 0, 0, 'x', '.'});
  EXPECT_THAT(std::string(RunInChild([&] { return LeaveInPipe(cut); }).status().message()),
              HasSubstr("is truncated: 10 bytes of 15"));
  const std::string garbage({'\2', 0, 0, 0, 0, 0, 0, 0, '\377', '.'});
  EXPECT_THAT(std::string(RunInChild([&] { return LeaveInPipe(garbage); }).status().message()),
              HasSubstr("2 bytes that are not a complete twofold.outcome.Outcome"));
}

// ---- Folded ranks ----

// What ranks do not do alike is no failure: they are simulated one by one.
TEST_F(FoldedFailures, MessagesUnfoldTheRanks) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    (c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0)).Wait();
    return std::to_string(c.rank());
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, testing::ElementsAre("0", "1"));
  EXPECT_THAT(result.notes, testing::Contains("ranks were not folded: identical ranks send messages to each other"));
}

TEST_F(FoldedFailures, UnequalCountsUnfoldTheRanksAndAreCompared) {
  auto exchange = [](RankContext& c, std::vector<int64_t> in, std::vector<int64_t> out) -> std::string {
    Tensor a = Zeros(c, 10), b = Zeros(c, 10);
    c.world().AllToAllV(b, out, a, in).Wait();
    return "whole";
  };
  const RunResult alike = Run(2, [&](RankContext& c) { return exchange(c, {2, 2}, {2, 2}); });
  EXPECT_TRUE(alike.status.ok()) << alike.status;
  EXPECT_THAT(alike.notes, testing::Contains("ranks are folded: rank 0 stands for all 2"));
  const RunResult wrong = Run(2, [&](RankContext& c) { return exchange(c, {2, 3}, {2, 3}); });
  EXPECT_EQ(wrong.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Message(wrong),
            "collective mismatch in group world, collective 1: rank 0 calls all_to_all_v expecting 3 elements (12 "
            "bytes) from rank 1 "
            "of the group, rank 1 calls all_to_all_v sending 2 elements (8 bytes) to rank 0 of the group");
}

}  // namespace failures_test
}  // namespace twofold
