// How a simulated run ends when a rank fails: the first cause is named with rank, call, group, sequence number and
// sizes, nobody hangs, partial results come back, and neither the process of the simulation nor a file is left behind.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

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

}  // namespace failures_test
}  // namespace twofold
