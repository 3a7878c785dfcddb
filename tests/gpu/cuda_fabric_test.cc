// The in-memory fabric on a GPU, beyond what the conformance suite sees: what waits for what, what the host waits for,
// how a run ends.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/collectives.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/gate.h"

namespace twofold {
namespace cuda_fabric_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;

using CudaFabricTest = GpuTest;

spec::Spec OnGpu(double timeout_s = 60) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  spec.set_device(spec::CUDA);
  return spec;
}

RunResult RunRanks(int ranks, const RankFunction& fn, const spec::Spec& spec = OnGpu()) {
  auto fabric = MakeInMemoryFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  return (*fabric)->Run(ranks, fn);
}

Tensor Of(RankContext& c, std::vector<float> values) {
  Tensor t = c.device().NewTensor({static_cast<int64_t>(values.size())}, DType::kF32, Category::kOther);
  c.device().Upload(t, [&values](std::span<std::byte> to) {
    std::copy_n(std::as_bytes(std::span(values)).begin(), to.size(), to.begin());
  });
  return t;
}
std::vector<float> ValuesOf(RankContext& c, const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.numel()));
  c.device().Download(t, std::as_writable_bytes(std::span(values)));
  return values;
}
void FillAllWith(RankContext& c, const Tensor& t, double value) {
  c.device().Launch(c.device().compute(), ops::Fill{.out = t, .value = value});
}

// Threads of one process: what rank 0 says, the others hear.
class Signal {
 public:
  void Give() { given_.set_value(); }
  bool Await() { return heard_.wait_for(Gate::kPatience) == std::future_status::ready; }

 private:
  std::promise<void> given_;
  std::shared_future<void> heard_ = given_.get_future().share();
};

constexpr milliseconds kAWhile(50);  // in which what need not wait is done

// ---- What waits for what ----

TEST_F(CudaFabricTest, ACollectiveStartsAfterTheComputeStreamsOfAllRanks) {
  Signal seen;
  const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
    Tensor t = Of(c, std::vector<float>(1000, 7));
    c.device().compute().Synchronize();
    std::optional<Gate> gate;
    if (c.rank() == 0) {
      gate.emplace(c.device().compute());
      FillAllWith(c, t, 5);
    }
    Work w = c.world().AllReduce(t);
    if (c.rank() == 0) {
      seen.Await();
      gate->Open();
    } else {
      std::this_thread::sleep_for(kAWhile);
      EXPECT_FALSE(w.Test()) << "rank 0 has not computed what it brings";
      seen.Give();
    }
    w.Wait();
    EXPECT_EQ(ValuesOf(c, t), std::vector<float>(1000, 12));
    return "";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST_F(CudaFabricTest, ABarrierIsOneOfComputeStreams) {
  Signal seen;
  const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
    std::optional<Gate> gate;
    if (c.rank() == 0) gate.emplace(c.device().compute());
    Work w = c.world().Barrier();
    w.WaitOn(c.device().compute());
    const Event behind = c.device().compute().Record();
    if (c.rank() == 0) {
      seen.Await();
      gate->Open();
    } else {
      std::this_thread::sleep_for(kAWhile);
      EXPECT_FALSE(behind.Done());
      seen.Give();
    }
    behind.Wait();
    return "";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST_F(CudaFabricTest, AMessageWaitsForBothSides) {
  for (const int late : {0, 1}) {
    Signal seen;
    const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
      Tensor t = Of(c, std::vector<float>(1000, 7));
      c.device().compute().Synchronize();
      std::optional<Gate> gate;
      if (c.rank() == late) {
        gate.emplace(c.device().compute());
        FillAllWith(c, t, 5);  // sent, or overwritten
      }
      Work w = c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0);
      if (c.rank() == late) {
        seen.Await();
        gate->Open();
      } else {
        std::this_thread::sleep_for(kAWhile);
        EXPECT_FALSE(w.Test());
        seen.Give();
      }
      w.WaitOn(c.device().compute());
      EXPECT_EQ(ValuesOf(c, t), std::vector<float>(1000, late == 0 ? 5 : 7));
      return "";
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
  }
}

// A rank that has waited may overwrite what it brought, though another rank's share has read it.
TEST_F(CudaFabricTest, WhoHasWaitedMayOverwrite) {
  const RunResult result = RunRanks(3, [](RankContext& c) -> std::string {
    constexpr int64_t kCount = 100'003;
    Tensor in = Of(c, std::vector<float>(kCount, static_cast<float>(c.rank() + 1)));
    Tensor out = Of(c, std::vector<float>(3 * kCount, -1));
    for (int round = 0; round < 20; ++round) {
      const auto base = static_cast<float>(10 * round);
      FillAllWith(c, in, base + static_cast<float>(c.rank()));
      c.world().AllGather(out, in).WaitOn(c.device().compute());
      FillAllWith(c, in, -5);
      if (round % 5 != 0) continue;
      const std::vector<float> values = ValuesOf(c, out);
      for (int64_t i = 0; i < 3 * kCount; i += 997) {
        EXPECT_EQ(values[static_cast<size_t>(i)], base + static_cast<float>(i / kCount))
            << "round " << round << ", element " << i;
      }
    }
    return "";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// ---- What the host waits for ----

TEST_F(CudaFabricTest, TheHostGoesOnWhileItsGpuIsBusy) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    Tensor t = Of(c, std::vector<float>(1000, 1)), more = Of(c, std::vector<float>(1000, 0));
    c.device().compute().Synchronize();
    Gate gate(c.device().compute());
    FillAllWith(c, t, 2);
    c.world().AllReduce(t).WaitOn(c.device().compute());
    c.device().Launch(c.device().compute(), ops::Cast{.in = t, .out = more});
    const Event end = c.device().compute().Record();
    EXPECT_FALSE(end.Done());
    gate.Open();
    EXPECT_EQ(ValuesOf(c, more), std::vector<float>(1000, 4));
    return "";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_LT(std::chrono::steady_clock::now() - start, Gate::kPatience) << "WaitOn has waited for the GPU";
}

// The time of a call begins when the rank's own compute stream has come to it, and what the stream waits for is counted
// as stalled.
TEST_F(CudaFabricTest, TimesAreThoseOfTheStreams) {
  constexpr milliseconds kBusy(500);
  EXPECT_TRUE(InSomeTry([&] {
    Signal issued;
    bool right[2] = {};
    const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
      Tensor t = Of(c, std::vector<float>(1000, 1));
      c.device().compute().Synchronize();
      std::optional<Gate> gate;
      if (c.rank() == 0) gate.emplace(c.device().compute());
      Work w = c.world().AllReduce(t);
      if (c.rank() == 1) issued.Give();
      w.WaitOn(c.device().compute());
      if (gate) {
        issued.Await();
        std::this_thread::sleep_for(kBusy);
        gate->Open();
      }
      w.Wait();
      c.device().compute().Synchronize();
      const double seconds = c.communication().entries().at({"world", Communication::kAllReduce}).seconds;
      const double stalled = c.device().compute().stalled().value(),
                   most = 0.8 * std::chrono::duration<double>(kBusy).count();
      right[c.rank()] = c.rank() == 0 ? seconds < most && stalled < most : seconds > most && stalled > most;
      return "";
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    return right[0] && right[1];
  }));
}

TEST_F(CudaFabricTest, SlowLinksAreWaitedFor) {
  spec::Spec spec = OnGpu();
  spec.mutable_fabric()->mutable_in_memory()->set_link_gbps(0.08);  // 10 MB/s
  const RunResult result = RunRanks(
      2,
      [](RankContext& c) -> std::string {
        Tensor t = Of(c, std::vector<float>(500'000, static_cast<float>(c.rank() + 1)));  // 2 MB
        const double start = c.clock().Now().value();
        Work w = c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0);
        w.WaitOn(c.device().compute());
        EXPECT_EQ(ValuesOf(c, t.Slice(0, 1)), std::vector<float>{1});
        EXPECT_GE(c.clock().Now().value() - start, 0.19);
        return "";
      },
      spec);
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// What a stream has waited for is over, and traced, though no thread of the host may have woken up since; and how long
// it stood still is the call's.
TEST_F(CudaFabricTest, WhatAStreamHasWaitedForIsInTheTrace) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    double exposed = 0;
    const auto spans = [&] {
      const std::vector<Span> all = c.trace().Take();
      for (const Span& s : all) exposed += s.exposed.value();
      return std::count_if(all.begin(), all.end(), [](const Span& s) { return s.name == "all_reduce"; });
    };
    Tensor t = Of(c, std::vector<float>(1000, 1));
    for (int round = 0; round < 100; ++round) {
      c.trace().SetEnabled(true);
      c.world().AllReduce(t).WaitOn(c.device().compute());
      c.device().compute().Synchronize();
      if (round % 2 == 1) c.trace().SetEnabled(false);
      EXPECT_EQ(spans(), 1) << "round " << round;
    }
    EXPECT_NEAR(exposed, c.device().compute().stalled().value(), 2e-4);  // events keep the time to half a microsecond
    return "";
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// ---- How a run ends ----

TEST_F(CudaFabricTest, MismatchesAreNamed) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    Tensor t = Of(c, std::vector<float>(c.rank() == 0 ? 10 : 11, 1));
    c.world().AllReduce(t).Wait();
    return "";
  });
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(HasSubstr("collective mismatch"), HasSubstr("rank 0 calls all_reduce(sum) of f32[10]"),
                    HasSubstr("rank 1 calls all_reduce(sum) of f32[11]")));
}

TEST_F(CudaFabricTest, MessagesOfTwoSizesAreNamed) {
  const RunResult result = RunRanks(2, [](RankContext& c) -> std::string {
    Tensor t = Of(c, std::vector<float>(c.rank() == 0 ? 10 : 11, 1));
    (c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0)).Wait();
    return "";
  });
  EXPECT_THAT(std::string(result.status.message()),
              AllOf(HasSubstr("send of 40 bytes"), HasSubstr("recv of 44 bytes")));
}

TEST_F(CudaFabricTest, ARankThatFailsEndsTheOthersWherever) {
  for (const bool on_stream : {false, true}) {
    const RunResult result = RunRanks(3, [&](RankContext& c) -> std::string {
      Tensor t = Of(c, {1, 2, 3});
      c.world().AllReduce(t).WaitOn(c.device().compute());
      if (c.rank() == 1) throw std::runtime_error("injected");
      Work w = c.world().AllReduce(t);
      if (on_stream) w.WaitOn(c.device().compute());
      w.Wait();
      return "";
    });
    EXPECT_EQ(result.status.message(), "rank 1: std::runtime_error: injected");
  }
}

TEST_F(CudaFabricTest, WhoDoesNotComeIsNamedAfterTheTimeOut) {
  const RunResult result = RunRanks(
      2,
      [](RankContext& c) -> std::string {
        Tensor t = Of(c, {1});
        while (c.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(5));
          c.CheckInterrupt();  // ends it once rank 0 has given up
        }
        c.world().AllReduce(t).Wait();
        return "";
      },
      OnGpu(/*timeout_s=*/0.5));
  EXPECT_EQ(result.status.code(), absl::StatusCode::kDeadlineExceeded) << result.status;
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("rank 0: all_reduce(sum) of f32[1] (4 bytes)"));
}

TEST_F(CudaFabricTest, MoreRanksThanAKernelTakesAreRefused) {
  const RunResult result = RunRanks(cuda::kMostArrays + 1, [](RankContext&) { return std::string(); });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("at most 128"));
}

}  // namespace cuda_fabric_test
}  // namespace twofold
