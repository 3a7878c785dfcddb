// How a simulated run ends when a rank fails: the first cause is named with rank, call, group, sequence number and sizes,
// nobody hangs, partial results come back, and neither the process of the simulation nor a file is left behind.
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/simulated/fabric.h"
#include "core/base/errors.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;
using Code = absl::StatusCode;

constexpr char kStar[] = R"(
  name: "star"
  device { kind: GPU_DEVICE memory_bytes: 1000000000 memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9
           matmul_efficiency: 1 memory_efficiency: 1 }
  star { hosts: 256 link_gbytes_per_second: 1 latency_us: 1000 }
)";
constexpr char kHost[] = R"(
  name: "host"
  device { kind: CPU_DEVICE memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 matmul_efficiency: 1 memory_efficiency: 1 }
  shared_memory_host { cores: 64 latency_us: 1000 core_gbytes_per_second: 1 total_gbytes_per_second: 100 }
)";

struct Setting {
  const char* name;
  const char* cluster;
  spec::Simulated::DataMode data;
};
void PrintTo(const Setting& s, std::ostream* out) { *out << s.name; }

RunResult RunRanks(const Setting& setting, int ranks, const RankFunction& fn, double timeout_s = 60,
                   spec::Simulated::Folding folding = spec::Simulated::OFF) {
  const std::string path = StrCat(testing::TempDir(), "/failures-", setting.name, "-", getpid(), ".textproto");
  std::ofstream(path) << setting.cluster;
  spec::Spec spec;
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  simulated.set_cluster(path);
  simulated.set_folding(folding);
  simulated.set_algorithm("auto");
  simulated.set_data(setting.data);
  auto fabric = MakeSimulatedFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(ranks, fn);
  std::remove(path.c_str());
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
  return result;
}

Tensor Zeros(RankContext& c, int64_t n, DType dtype = DType::kF32) {
  Tensor t = c.device().NewTensor(Shape{n}, dtype, Category::kOther);
  c.device().Launch(c.device().compute(), ops::Fill{t, 0});
  return t;
}
std::string Message(const RunResult& r) { return std::string(r.status.message()); }

class Failures : public testing::TestWithParam<Setting> {
 protected:
  RunResult Run(int ranks, const RankFunction& fn, double timeout_s = 60) { return RunRanks(GetParam(), ranks, fn, timeout_s); }
  void ExpectMismatch(const std::function<void(RankContext&)>& fn, const std::string& expected) {
    const RunResult result = Run(2, [&](RankContext& c) {
      Tensor t = Zeros(c, 1);
      c.world().AllReduce(t).Wait();
      c.SetPartialResult("so far");
      fn(c);
      return std::string("whole");
    });
    EXPECT_EQ(result.status.code(), Code::kInvalidArgument);
    EXPECT_EQ(Message(result), StrCat("collective mismatch in group ", expected));
    EXPECT_THAT(result.results, Each("so far"));
  }
};

INSTANTIATE_TEST_SUITE_P(, Failures,
                         testing::Values(Setting{"StarSymbolic", kStar, spec::Simulated::SYMBOLIC},
                                         Setting{"StarReal", kStar, spec::Simulated::REAL},
                                         Setting{"HostSymbolic", kHost, spec::Simulated::SYMBOLIC},
                                         Setting{"HostReal", kHost, spec::Simulated::REAL}),
                         [](const auto& info) { return info.param.name; });

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
            "rank 0: lost rank 1 in recv of f32[10] from rank 1, tag 5 (40 bytes), message 1 of group world (missing: rank 1): "
            "rank 1: std::runtime_error: injected");
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
  EXPECT_THAT(result.results[1], StartsWith("rank 1: lost rank 0 in all_reduce(sum) of f32[100000] (400000 bytes), collective 1"));
}

TEST_P(Failures, WhatIsNoStdExceptionIsACauseToo) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    if (c.rank() == 0) throw 7;
    c.world().Barrier().Wait();
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_EQ(Message(result), "rank 0: an exception that is no std::exception");
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
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[8] (32 bytes), rank 1 calls all_gather of f32[8] (32 bytes)");
}
TEST_P(Failures, MismatchOfCount) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor t = Zeros(c, 10 + c.rank());
        c.world().AllReduce(t).Wait();
      },
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[10] (40 bytes), rank 1 calls all_reduce(sum) of f32[11] (44 bytes)");
}
TEST_P(Failures, MismatchOfCountOfAShard) {
  ExpectMismatch(
      [](RankContext& c) {
        Tensor out = Zeros(c, 2 * (4 + c.rank())), shard = Zeros(c, 4 + c.rank());
        c.world().Gather(out, shard, 0).Wait();
      },
      "world, collective 2: rank 0 calls gather of f32[8] to root 0 (32 bytes), rank 1 calls gather of f32[5] to root 0 (20 bytes)");
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
      "world, collective 2: rank 0 calls all_reduce(sum) of f32[4] (16 bytes), rank 1 calls all_reduce(max) of f32[4] (16 bytes)");
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
            "collective mismatch in group half (ranks 3, 1), collective 1: rank 1 calls all_reduce(sum) of f32[8] (32 bytes), "
            "rank 3 calls all_reduce(sum) of f32[7] (28 bytes)");
}

// ---- Deadlocks ----

TEST_P(Failures, ReturningWhileOthersWaitIsADeadlock) {
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

TEST_P(Failures, OneCollectiveTooManyIsADeadlock) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    c.world().AllReduce(t).Wait();
    if (c.rank() == 0) c.world().AllReduce(t);
    return "";
  });
  EXPECT_EQ(Message(result),
            "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 2 of group world (missing: rank 1), "
            "which it left unfinished; rank 1 has returned");
}

TEST_P(Failures, ADeadlockTellsWhatTheMissingOnesDo) {
  const RunResult result = Run(3, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10), u = Zeros(c, 6);
    c.SetPartialResult("so far");
    if (c.rank() == 0) c.world().AllReduce(t).Wait();
    if (c.rank() == 1) c.world().Recv(u, kAnySource, 7).Wait();
    if (c.rank() == 2) c.world().Split(0, 0, "never");
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(Message(result),
            "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world (missing: ranks 1, 2); "
            "rank 1 waits for recv of f32[6] from any rank, tag 7 (24 bytes), message 1 of group world (missing: a sender); "
            "rank 2 waits for split 1 of group world (missing: ranks 0, 1)");
  EXPECT_THAT(result.results, Each("so far"));
}

TEST_P(Failures, MessagesThatNeverMeetShowTheirTags) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    (c.rank() == 0 ? c.world().Send(t, 1, 3) : c.world().Recv(t, 0, 4)).Wait();
    return "";
  });
  EXPECT_EQ(Message(result),
            "deadlock: rank 0 waits for send of f32[10] to rank 1, tag 3 (40 bytes), message 1 of group world (missing: rank 1); "
            "rank 1 waits for recv of f32[10] from rank 0, tag 4 (40 bytes), message 1 of group world (missing: rank 0)");
}

// Groups whose collectives are waited for in different orders.
TEST_P(Failures, ADeadlockAcrossGroupsNamesBoth) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    auto a = c.world().Split(0, 0, "a"), b = c.world().Split(0, 0, "b");
    Tensor t = Zeros(c, 10), u = Zeros(c, 20);
    if (c.rank() == 0) a->AllReduce(t).Wait();
    b->AllReduce(u).Wait();
    if (c.rank() == 1) a->AllReduce(t).Wait();
    return "";
  });
  EXPECT_EQ(Message(result),
            "deadlock: rank 0 waits for all_reduce(sum) of f32[10] (40 bytes), collective 1 of group a (ranks 0, 1) "
            "(missing: rank 1); rank 1 waits for all_reduce(sum) of f32[20] (80 bytes), collective 1 of group b (ranks 0, 1) "
            "(missing: rank 0)");
}

// Who waits for a later call, or for a stream that waits, is told what holds it up.
TEST_P(Failures, WaitingIndirectlyNamesTheCallThatIsStuck) {
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
  EXPECT_THAT(Message(result),
              AllOf(StartsWith("deadlock: rank 0 waits for " + stuck +
                               ", before all_reduce(sum) of f32[20] (80 bytes), collective 2 of group world; rank 1 waits for "),
                    HasSubstr(stuck + "; rank 2 waits for any of " + recv + " or " + recv + ", before recv of f32[20] from rank 1")));
}

TEST_P(Failures, AtMost64WaitsAreTold) {
  const RunResult result = RunRanks({"Many", kStar, GetParam().data}, 100, [](RankContext& c) -> std::string {
    if (c.rank() == 99) return "";
    Tensor t = Zeros(c, 1 + c.rank());
    if (c.rank() < 10) c.world().Barrier().Wait();
    else c.world().Recv(t, 99).Wait();
    return "";
  });
  const std::string message = Message(result);
  EXPECT_THAT(message, AllOf(StartsWith("deadlock: ranks 0-9 wait for barrier (0 bytes), collective 1 of group world (missing: "
                                        "ranks 10-99); rank 10 waits for recv of f32[11] from rank 99"),
                             HasSubstr("; rank 72 waits for recv of f32[73]"), testing::Not(HasSubstr("rank 73 waits")),
                             testing::EndsWith("; and 26 more ranks; rank 99 has returned")));
}

// ---- The end of the process ----

TEST_P(Failures, TheRankThatExitsIsNamed) {
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
    EXPECT_EQ(Message(result),
              StrCat("rank 1: the simulation's process ended with exit status ", exit_status,
                     " in its turn; its last call was all_reduce (40 bytes), collective 1 of group world; since "
                     "then it launched 1 operation, fill"));
    EXPECT_EQ(result.results, std::vector<std::string>(3));
  }
}

TEST_P(Failures, TheRankThatASignalEndsIsNamed) {
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
    EXPECT_EQ(Message(result),
              StrCat("rank 2: the simulation's process was ended by ", name, " in its turn; it has not communicated yet"));
  }
}

// ---- Hangs ----

TEST_P(Failures, ARankThatComputesForEverIsNamedAfterTheTimeOut) {
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
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// It goes on after it has woken another rank, which then had its turn.
TEST_P(Failures, TheOneThatHangsIsNamedWhoeverRanMeanwhile) {
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
            "rank 1 has called nothing for 0.5 s (fabric.timeout_s); its last call was barrier (0 bytes), collective 1 of group "
            "pair (ranks 0, 1)");
}

TEST_P(Failures, AHangAfterASplitNamesIt) {
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

TEST_P(Failures, ARankThatSleepsForEverIsNamedAfterTheTimeOut) {
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
TEST_P(Failures, ALongRunThatLivesIsLeftAlone) {
  const RunResult result = Run(
      2,
      [](RankContext& c) -> std::string {
        Tensor t = Zeros(c, 10);
        for (int i = 0; i < 8; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          if (i % 2 == 0) c.world().AllReduce(t).Wait();
          else c.device().Launch(c.device().compute(), ops::Fill{t, 0});
        }
        return "whole";
      },
      0.8);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, Each("whole"));
}

// The arithmetic of one operation may take longer than the time-out.
TEST(FailuresOfRealRanks, ALongOperationIsNoHang) {
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

// ---- Interrupts, and the death of the parent ----

TEST_P(Failures, AnInterruptEndsTheRanksInOrder) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    c.SetPartialResult("so far");
    if (c.rank() == 0) {
      kill(getppid(), SIGINT);
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
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "its end of the pipe closes as it dies";
  int status = 0;
  EXPECT_EQ(waitpid(simulation, &status, 0), simulation);
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
            "rank 0: the simulation's process ended with exit status 3 in its turn; its last call was barrier (0 bytes), "
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

// What ranks do not do alike is no failure: they are simulated one by one.
TEST_F(FoldedFailures, MessagesUnfoldTheRanks) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    (c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0)).Wait();
    return std::to_string(c.rank());
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, testing::ElementsAre("0", "1"));
  EXPECT_THAT(result.notes, testing::Contains("ranks were not folded: ranks send messages to one another"));
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
            "collective mismatch in group world, collective 1: rank 0 calls all_to_all_v expecting 3 elements (12 bytes) from rank 1 "
            "of the group, rank 1 calls all_to_all_v sending 2 elements (8 bytes) to rank 0 of the group");
}

// ---- The words ----

TEST(RankList, RunsOfThreeAndMoreAreRanges) {
  EXPECT_EQ(RankList({}), "no rank");
  EXPECT_EQ(RankList(std::vector<int>{3}), "rank 3");
  EXPECT_EQ(RankList(std::vector<int>{2, 3}), "ranks 2, 3");
  EXPECT_EQ(RankList(std::vector<int>{0, 1, 2, 4, 6, 7, 8, 9}), "ranks 0-2, 4, 6-9");
}

}  // namespace
}  // namespace twofold
