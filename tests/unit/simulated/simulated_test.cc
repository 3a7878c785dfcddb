// The simulated fabric through the seams: what programs see of virtual time, memory and failures.
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/errors.h"
#include "core/device/transfers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace simulated_test {

using testing::HasSubstr;

TEST_F(SimulatedTest, CommunicationOverlapsComputation) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 100'000'000);  // 0.4 GB: all-reduce over 2 = 1 ms + 0.4 s
    Busy(ctx, 0.1);
    Work work = ctx.world().AllReduce(t);  // starts at 0.1, ends at 0.501
    Busy(ctx, 0.3);                        // ends at 0.4
    work.WaitOn(ctx.device().compute());   // stalls 0.101
    Busy(ctx, 0.2);
    const std::string finished = Finished(ctx);
    return StrCat(finished, " ", Number(ctx.device().compute().stalled().value()));
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (const std::string& r : result.results) EXPECT_EQ(r, "0.701 0.101");
}

// Host links of 1 GB/s each way and 1 ms.
std::string WithHostLink(std::string cluster) {
  const std::string link = "host_link_gbytes_per_second: 1 host_link_us: 1000 host_memory_bytes: 500000000 ";
  return cluster.replace(cluster.find("matmul_efficiency"), 0, link);
}

TEST_F(SimulatedTest, TransfersOverlapComputationEachWayApart) {
  for (const std::string& cluster : {WithHostLink(kPlain), WithHostLink(absl::StrFormat(kHost, 4))}) {
    const auto result = Run(Spec(1, cluster), [](RankContext& ctx) {
      Device& device = ctx.device();
      TransferStream in(device, "host to device"), out(device, "device to host");
      Tensor t = Floats(ctx, 25'000'000), u = Floats(ctx, 50'000'000);  // 0.1 and 0.2 GB
      const Tensor host = device.NewHostTensor(t.shape(), DType::kF32, Category::kOther);
      const Tensor other = device.NewHostTensor(u.shape(), DType::kF32, Category::kOther);
      Busy(ctx, 0.1);
      Transfer there = out.Copy(t, host);   // 0.1 to 0.201
      Transfer beside = in.Copy(other, u);  // 0.1 to 0.301
      Busy(ctx, 0.05);                      // to 0.15
      there.WaitOn(device.compute());       // stalls 0.051
      in.After(there);
      Transfer back = in.Copy(host, t);  // 0.301 to 0.402
      Busy(ctx, 0.2);                    // to 0.401
      back.WaitOn(device.compute());     // stalls 0.001
      beside.WaitOn(device.compute());
      const std::string finished = Finished(ctx);
      return StrCat(finished, " ", Number(device.compute().stalled().value()));
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.results[0], "0.402 0.052");
  }
}

TEST_F(SimulatedTest, TransfersAreTraced) {
  const auto result = Run(Spec(1, WithHostLink(kPlain)), [](RankContext& ctx) {
    TransferStream out(ctx.device(), "device to host");
    Tensor t = Floats(ctx, 25'000'000);
    const Tensor host = ctx.device().NewHostTensor(t.shape(), DType::kF32, Category::kOther);
    ctx.trace().SetEnabled(true);
    out.Copy(t, host).Wait();
    std::string text;
    for (const Span& s : ctx.trace().Take())
      StrAppend(&text, s.stream, "/", s.name, " ", s.start.value(), " ", s.end.value(), " ", s.bytes.value());
    return text;
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "device to host/transfer 0 0.101 100000000");
}

TEST_F(SimulatedTest, TheHostsMemoryIsBounded) {
  const auto fill = [](RankContext& ctx) {
    const Tensor t = ctx.device().NewHostTensor(Shape{400'000'000}, DType::kU8, Category::kOptimizerState);
    return StrCat(ctx.host_memory().reserved.value(), " ", ctx.memory().reserved.value());
  };
  EXPECT_EQ(Run(Spec(1, WithHostLink(kPlain)), fill).results[0], "400556032 0");
  spec::Spec spec = Spec(1, WithHostLink(kPlain));
  spec.mutable_memory()->set_host_budget_mib(300);
  const auto result = Run(spec, fill);
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOutOfMemory);
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("rank 0: out of host memory: asked for 400,000,000 bytes of optimizer_state"));
}

// A transfer behind a collective that fails does nothing to memory that its rank has left behind.
TEST_F(SimulatedTest, TransfersEndWithTheirRank) {
  spec::Spec spec = Spec(2, WithHostLink(kPlain));
  spec.mutable_fabric()->mutable_simulated()->set_data(spec::Simulated::REAL);
  const auto result = Run(spec, [](RankContext& ctx) {
    TransferStream out(ctx.device(), "device to host");
    Tensor t = Floats(ctx, 1000);
    const Tensor host = ctx.device().NewHostTensor(t.shape(), DType::kF32, Category::kOther);
    ctx.world().AllReduce(t).WaitOn(ctx.device().compute());
    out.Copy(t, host);
    if (ctx.rank() == 1) throw std::runtime_error("enough");
    return std::string();
  });
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("enough"));
}

TEST_F(SimulatedTest, ACollectiveStartsWhenTheLastRankArrives) {
  const auto result = Run(Spec(4), [](RankContext& ctx) {
    Busy(ctx, 0.1 * ctx.rank());
    ctx.world().Barrier().Wait();  // dissemination: 2 rounds of 1 ms
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (const std::string& r : result.results) EXPECT_EQ(r, "0.302");
}

TEST_F(SimulatedTest, OverlapOnSharedCoresCostsComputeTime) {
  for (const auto& [cores, expected] : {std::pair(4, "0.5"), std::pair(2, "0.901")}) {
    const auto result = Run(Spec(2, absl::StrFormat(kHost, cores)), [](RankContext& ctx) {
      Tensor t = Floats(ctx, 100'000'000);  // 0.4 GB moved by each core: 0.401 s
      Work work = ctx.world().AllReduce(t);
      Busy(ctx, 0.5);
      work.WaitOn(ctx.device().compute());
      return Finished(ctx);
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.results[0], expected) << cores << " cores";
  }
}

// A host of which a profile says how its ranks train: 1 GB/s fills take twice their time alone, the host 10 ms before
// each.
class TrainingTest : public SimulatedTest {
 protected:
  spec::Spec Trained(int ranks, const std::string& training, const std::string& more = "") {
    spec::Spec spec = Spec(ranks, absl::StrFormat(kBareHost, 2));
    const std::string path = Write(
        ".profile",
        StrCat(
            "cores: 2 kernels { name: 'fill' dtype: 'f32' "
            "points { dims: [1, 250000] bytes: 1e6 seconds: 1e-3 } points { dims: [1, 250000000] bytes: 1e9 seconds: 1 "
            "low: 0.9 high: 1.3 } }\n"
            "kernels { name: 'scale' dtype: 'f32' points { dims: [1, 125000000] bytes: 1e9 seconds: 1 low: 0.8 } }\n"
            "shared_memory { latency_s: 1e-3 bytes_per_second_core: 1e9 bytes_per_second_total: 1e11 ",
            more,
            " }\n"
            "training { ranks: 1 factor: 2 host_s: 0.01 low: 0.8 high: 1.1 ",
            training, " }"));
    spec.mutable_fabric()->mutable_simulated()->set_profile(path);
    return spec;
  }
  static constexpr char kBareHost[] =
      "name: \"host\" device { kind: CPU_DEVICE memory_bytes_per_second: 1e9 f32_flops_per_second: 1e9 "
      "matmul_efficiency: 1 memory_efficiency: 1 } shared_memory_host { cores: %d }";
};

TEST_F(TrainingTest, KernelsTakeTheirFactorAndTheHostItsTime) {
  const auto result = Run(Trained(1, ""), [](RankContext& ctx) {
    Busy(ctx, 0.1);
    Busy(ctx, 0.1);
    const Uncertainty u = ctx.uncertainty();
    return StrCat(Finished(ctx), " ", Number(u.machine.low), " ", Number(u.machine.high));
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.42 0.8 1.1");
}

TEST_F(TrainingTest, RanksWaitForTheSlowestSinceTheyLastMet) {
  const auto result = Run(Trained(2, "waiting: 0.1"), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 1);
    std::string times;
    for (int i = 0; i < 2; ++i) {
      Busy(ctx, 0.095);                 // 0.2 with the host's time
      ctx.world().AllReduce(t).Wait();  // the slowest comes 0.02 later; 1 ms for the meeting
      StrAppend(&times, Finished(ctx), " ");
    }
    return StrCat(times, Number(ctx.device().compute().stalled().value()));
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.221000004 0.442000008 0.042000008");
}

TEST_F(TrainingTest, CommunicationBesideComputeCostsItsShareOfTheCore) {
  const auto result = Run(Trained(2, "core_share: 0.25"), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 99'750'000);  // 0.399 GB and the meeting: 0.4 s
    Work work = ctx.world().AllReduce(t);
    Busy(ctx, 0.245);  // 0.5
    work.WaitOn(ctx.device().compute());
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.6");
}

TEST_F(TrainingTest, CollectivesTakeWhatWasMeasuredOfThem) {
  const auto result = Run(
      Trained(
          2, "",
          "collectives { operation: 'all_reduce' ranks: 2 points { bytes: 4 seconds: 0.125 low: 0.1 high: 0.25 } }"),
      [](RankContext& ctx) {
        Tensor t = Floats(ctx, 1);
        ctx.world().AllReduce(t).Wait();
        const std::string first = Finished(ctx);
        ctx.world().Broadcast(t, 0).Wait();  // was not measured: the links' time
        const Uncertainty uncertainty = ctx.uncertainty();
        return StrCat(first, " ", Finished(ctx), " ", Number(uncertainty.communication.low), " ",
                      Number(uncertainty.communication.high));
      });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.125 0.126000004 0.8 2");
  EXPECT_THAT(result.notes,
              testing::Contains(HasSubstr("all_reduce of 2 ranks take the time that calibration measured")));
}

// With other groups about, what was measured still takes its time; at once, two of them share what they need.
TEST_F(TrainingTest, MeasuredCollectivesOfSeveralGroupsShareTheLinks) {
  std::string measured;
  for (const char* operation : {"all_gather", "reduce_scatter"}) {
    StrAppend(&measured, " collectives { operation: '", operation,
              "' ranks: 2 points { bytes: 4000000 seconds: 0.125 } }");
  }
  for (auto folding : {spec::Simulated::OFF, spec::Simulated::ON}) {
    spec::Spec spec = Trained(2, "", measured);
    spec.mutable_fabric()->mutable_simulated()->set_folding(folding);
    const auto result = Run(spec, [](RankContext& ctx) {
      auto gather = ctx.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "gather");
      auto reduce = ctx.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "reduce");
      Tensor full = Floats(ctx, 1'000'000), part = Floats(ctx, 500'000);
      gather->AllGather(full, part).Wait();
      const double alone = ctx.clock().Now().value();
      Work gathered = gather->AllGather(full, part), reduced = reduce->ReduceScatter(part, full);
      gathered.Wait();
      reduced.Wait();
      // Latencies, 25 ms of the one's 125 and 31.25 of the other's, pass side by side; bytes share the cores.
      return StrCat(absl::StrFormat("%.6f", alone), " ", absl::StrFormat("%.3f", ctx.clock().Now().value() - alone));
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(result.results, std::vector<std::string>(2, "0.125000 0.219"));
  }
}

TEST_F(TrainingTest, ExtrapolatedKernelsAreListedWithTheirShapes) {
  const auto result = Run(Trained(1, ""), [](RankContext& ctx) {
    for (int i = 0; i < 3; ++i) Busy(ctx, 4);  // a billion elements, four times what was measured
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.notes,
              testing::Contains(HasSubstr("fill is extrapolated beyond what was calibrated: 1 x 1000000000 (3 calls")));
}

TEST_F(TrainingTest, SleepingRanksShareNothing) {
  spec::Spec spec = Trained(1, "");
  spec.set_device(spec::EMULATED);
  spec.mutable_emulated()->set_cluster(spec.fabric().simulated().cluster());
  spec.mutable_emulated()->set_profile(spec.fabric().simulated().profile());
  const auto result = Run(spec, [](RankContext& ctx) {
    Busy(ctx, 0.1);
    return Finished(ctx);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.1");
}

TEST_F(TrainingTest, IndependentKernelsAddTheirSquares) {
  const auto result = Run(Trained(1, ""), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 125'000'000);
    for (int i = 0; i < 2; ++i) {
      Busy(ctx, 1);                                                     // 2 s in training, 0.2 less at the least
      ctx.device().Launch(ctx.device().compute(), ops::Scale{.x = t});  // likewise, 0.4 less
    }
    return Number(ctx.uncertainty().compute.low);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], Number(1 - std::hypot(0.1, 0.2) / 2));
}

TEST_F(SimulatedTest, SmallKernelsAreBoundByTheirLaunch) {
  std::string cluster = kPlain;
  cluster.replace(cluster.find("kind: GPU_DEVICE"), 16, "kind: GPU_DEVICE launch_us: 10000");
  const auto result = Run(Spec(1, cluster), [](RankContext& ctx) {
    for (int i = 0; i < 10; ++i) Busy(ctx, 0.001);  // the device waits for the host: 10 launches, then the last kernel
    const std::string small = Finished(ctx);
    for (int i = 0; i < 10; ++i) Busy(ctx, 0.1);  // the host runs ahead: one launch, then ten kernels
    return StrCat(small, " ", Finished(ctx));
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0.101 1.111");
}

TEST_F(SimulatedTest, MoreRanksThanCoresTakeTurns) {
  const auto result = Run(Spec(4, absl::StrFormat(kHost, 2)), [](RankContext& ctx) {
    Busy(ctx, 0.5);
    return Finished(ctx);
  });
  EXPECT_EQ(result.results[0], "1");
  EXPECT_THAT(result.notes, testing::Contains(HasSubstr("4 threads compute on 2 cores")));
}

TEST_F(SimulatedTest, AnySourceTakesTheEarliestInVirtualTime) {
  const auto result = Run(Spec(3), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 1);
    if (ctx.rank() == 0) {
      std::string order;
      for (int i = 0; i < 2; ++i) {
        Work work = ctx.world().Recv(t, kAnySource);
        work.Wait();
        StrAppend(&order, work.source(), "@", Finished(ctx), " ");
      }
      return order;
    }
    Busy(ctx, ctx.rank() == 1 ? 0.5 : 0.2);  // rank 1 runs first in the simulator, rank 2 is first in time
    ctx.world().Send(t, 0).Wait();
    return std::string();
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "2@0.201000004 1@0.501000004 ");
}

TEST_F(SimulatedTest, WaitAnyReturnsTheEarliest) {
  const auto result = Run(Spec(3), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 1), u = Floats(ctx, 1);
    if (ctx.rank() > 0) {
      Busy(ctx, ctx.rank() == 1 ? 0.5 : 0.2);
      ctx.world().Send(t, 0).Wait();
      return std::string();
    }
    std::vector<Work> works = {ctx.world().Recv(t, 1)};
    works.push_back(ctx.world().Recv(u, 2));  // sent earlier, but behind the first on the group's stream
    const size_t first_done = Work::WaitAny(works);
    return StrCat(first_done, "@", Finished(ctx));
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], "0@0.501000004");
}

TEST_F(SimulatedTest, PollingEnds) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 1000);
    Work work = ctx.world().AllReduce(t);
    int polls = 1;
    while (!work.Test()) ++polls;
    return std::to_string(polls);
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  EXPECT_NEAR(std::stoi(result.results[0]), 1004, 3);  // 1 round of 1 ms and 4 us, a microsecond a poll
}

TEST_F(SimulatedTest, SplitGroupsShareTheNetwork) {
  const auto result = Run(Spec(4), [](RankContext& ctx) {
    auto half = ctx.world().Split(ctx.rank() % 2, ctx.rank(), "half");
    auto all = ctx.world().NewGroup(std::vector<int>{0, 1, 2, 3}, "all");
    Tensor t = Floats(ctx, 100'000'000), u = Floats(ctx, 100'000'000);
    std::vector<std::string> seconds;
    for (const bool together : {true, false, true, false}) {  // what was simulated once is not taken for the other
      const double start = ctx.clock().Now().value();
      Work a = half->AllReduce(t), b;
      if (together) b = all->AllReduce(u);
      a.Wait();
      b.Wait();
      seconds.push_back(Number(ctx.clock().Now().value() - start));
      all->Barrier().Wait();
    }
    return absl::StrJoin(seconds, " ");
  });
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (const std::string& r : result.results) {
    const std::vector<std::string> seconds = absl::StrSplit(r, ' ');
    ASSERT_EQ(seconds.size(), 4u);
    // 0.4 GB by the pairs and 2 * 3/4 * 0.4 GB by the ring over all leave each rank: 1 GB over 1 GB/s, and 6 ms of ring
    // latency that the pairs fill. Alone the pairs take 1 ms and 0.4 s.
    for (size_t i : {0, 2}) EXPECT_NEAR(std::stod(seconds[i]), 1.0, 0.01);
    for (size_t i : {1, 3}) EXPECT_NEAR(std::stod(seconds[i]), 0.401, 1e-6);
  }
}

TEST_F(SimulatedTest, ADeadlockIsAResultThatNamesWhoWaits) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 10);
    if (ctx.rank() == 0) ctx.world().AllReduce(t).Wait();
    if (ctx.rank() == 1) ctx.world().Recv(t, 0, 7).Wait();
    return std::string();
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kDeadlock) << result.status;
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("rank 0 waits for all_reduce(sum) of f32[10] (40 bytes)"));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("(missing: rank 1)"));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 1 waits for recv"));
}

TEST_F(SimulatedTest, MismatchedCollectivesAreNamed) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    Tensor t = Floats(ctx, 10 + ctx.rank());
    ctx.world().AllReduce(t).Wait();
    return std::string();
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kCollectiveMismatch) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 0 calls all_reduce(sum) of f32[10]"));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 1 calls all_reduce(sum) of f32[11]"));
}

TEST_F(SimulatedTest, OutOfMemoryIsPredicted) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    ctx.SetPartialResult("got here");
    std::vector<Tensor> kept;
    if (ctx.rank() == 1)
      for (int i = 0; i < 3; ++i) kept.push_back(Floats(ctx, 100'000'000));  // 0.4 of 1 GB each
    ctx.world().Barrier().Wait();
    return std::string("done");
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kOutOfMemory) << result.status;
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("rank 1: out of memory: asked for 400,000,000 bytes of activations"));
  EXPECT_EQ(result.results[1], "got here");
}

TEST_F(SimulatedTest, BadRequestsAreRefusedBeforeTheRun) {
  spec::Spec spec = Spec(65);
  EXPECT_THAT(std::string(MakeSimulatedFabric(spec).status().message()), HasSubstr("65 ranks do not fit"));
  spec = Spec(2);
  spec.set_device(spec::CUDA);
  spec.mutable_fabric()->mutable_simulated()->set_cluster("this-machine");
  EXPECT_THAT(std::string(MakeSimulatedFabric(spec).status().message()),
              HasSubstr("\"this-machine\" computes on CPUs, but device is CUDA"));
  spec = Spec(2);
  spec.mutable_fabric()->mutable_simulated()->set_algorithm("rings");
  EXPECT_THAT(std::string(MakeSimulatedFabric(spec).status().message()), HasSubstr("recursive_doubling"));
  spec.mutable_fabric()->mutable_simulated()->set_algorithm("shared_memory");
  const auto result = Run(spec, Step);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("do not share memory"));
}

TEST_F(SimulatedTest, TracesTellBothStreams) {
  const auto result = Run(Spec(2), [](RankContext& ctx) {
    ctx.trace().SetEnabled(true);
    Tensor t = Floats(ctx, 1'000'000);
    Busy(ctx, 0.01);
    ctx.world().AllReduce(t).WaitOn(ctx.device().compute());
    Busy(ctx, 0.01);
    ctx.device().compute().Synchronize();
    ctx.trace().SetEnabled(false);
    std::string out;
    for (const Span& s : ctx.trace().Take()) {
      StrAppend(&out, s.stream, " ", s.name, " ", Number(s.start.value()), "-", Number(s.end.value()), "\n");
    }
    return out;
  });
  EXPECT_EQ(result.results[0],
            "communication world all_reduce 0.01-0.015\ncompute fill 0-0.01\ncompute fill 0.015-0.025\n");
}

}  // namespace simulated_test
}  // namespace twofold
