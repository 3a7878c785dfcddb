// What the in-memory fabric offers beside communication: results, clock, trace, memory, overlap.
#include "backends/in_memory/fabric.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "backends/host/cuda.h"
#include "backends/host/memory_rules.h"
#include "backends/registry.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace fabric_test {

using testing::HasSubstr;

RunResult RunRanks(int ranks, const RankFunction& fn, in_memory::GroupOptions options = {}) {
  return MakeInMemoryFabric(spec::Spec(), options)->Run(ranks, fn);
}
Tensor Floats(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  std::fill_n(t.data<float>(), n, 1.0f);
  return t;
}

TEST(InMemoryFabric, GivesEachRanksResult) {
  const RunResult result =
      RunRanks(5, [](RankContext& c) { return std::to_string(c.rank()) + " of " + std::to_string(c.world_size()); });
  EXPECT_TRUE(result.status.ok());
  EXPECT_THAT(result.results, testing::ElementsAre("0 of 5", "1 of 5", "2 of 5", "3 of 5", "4 of 5"));
}

// A neighbour's messages arrive while those of the other are copied. Those of one sender and tag stay in order.
TEST(InMemoryFabric, MessagesOfABatchStayInOrder) {
  constexpr int kRanks = 4, kRounds = 200;
  constexpr int64_t kSizes[] = {3000, 64, 256, 4};
  const RunResult result = RunRanks(kRanks, [&](RankContext& c) {
    const int left = (c.rank() + kRanks - 1) % kRanks, right = (c.rank() + 1) % kRanks;
    std::vector<P2p> batch;
    for (const int64_t size : kSizes) {
      batch.push_back({P2p::kSend, Floats(c, size), left, 0});
      batch.push_back({P2p::kSend, Floats(c, size), right, 1});
      batch.push_back({P2p::kRecv, Floats(c, size), right, 0});
      batch.push_back({P2p::kRecv, Floats(c, size), left, 1});
    }
    for (int round = 0; round < kRounds; ++round) c.world().Batch(batch).Wait();
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST(InMemoryFabric, TracesComputeAndCommunicationOnOneTimeLine) {
  std::vector<Span> spans;
  double before = 0, after = 0;
  ASSERT_TRUE(RunRanks(2, [&](RankContext& c) {
                Tensor t = Floats(c, 1000), u = Floats(c, 1000);
                c.world().AllReduce(t).Wait();  // not traced
                c.trace().SetEnabled(true);
                const double start = c.clock().Now().value();
                c.device().Launch(c.device().compute(), ops::Cast{t, u});
                c.world().AllReduce(t).Wait();
                c.trace().SetEnabled(false);
                c.device().Launch(c.device().compute(), ops::Cast{t, u});  // nor this
                if (c.rank() == 0) {
                  before = start;
                  after = c.clock().Now().value();
                  spans = c.trace().Take();
                }
                return std::string();
              }).status.ok());
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].stream, "communication world");
  EXPECT_EQ(spans[0].name, "all_reduce");
  EXPECT_EQ(spans[0].bytes, Bytes(4000));
  EXPECT_EQ(spans[1].stream, "compute");
  EXPECT_EQ(spans[1].name, "cast");
  EXPECT_EQ(spans[1].bytes, Bytes(8000));
  EXPECT_LE(before, spans[1].start.value());
  EXPECT_LE(spans[1].start, spans[1].end);
  EXPECT_LE(spans[1].end, spans[0].start);
  EXPECT_LE(spans[0].start, spans[0].end);
  EXPECT_LE(spans[0].end.value(), after);
}

// Rank 0's communication completes while its host is busy: the test would never end if it needed the host.
TEST(InMemoryFabric, CommunicationGoesOnWhileTheHostComputes) {
  ASSERT_TRUE(RunRanks(2, [](RankContext& c) {
                Tensor t = Floats(c, 1000);
                Work w = c.world().AllReduce(t);
                while (!w.Test()) std::this_thread::yield();
                w.Wait();
                EXPECT_EQ(t.data<float>()[999], 2.0f);
                return std::string();
              }).status.ok());
}

TEST(InMemoryFabric, WaitingCountsAsStalledTime) {
  std::atomic<bool> waits = false;
  ASSERT_TRUE(RunRanks(2, [&waits](RankContext& c) {
                if (c.rank() == 1) {
                  while (!waits) std::this_thread::yield();
                  std::this_thread::sleep_for(std::chrono::milliseconds(200));
                }
                Work w = c.world().Barrier();
                waits = true;
                w.WaitOn(c.device().compute());
                const double stalled = c.device().compute().stalled().value();
                EXPECT_TRUE(c.rank() == 1 || stalled > 0.0) << stalled;
                return std::string();
              }).status.ok());
}

TEST(InMemoryFabric, NativeCollectivesNeedNoWorkspaceAndBuiltOnesAccountForIt) {
  auto peak = [](bool point_to_point_only) {
    int64_t bytes = -1;
    EXPECT_TRUE(RunRanks(4,
                         [&bytes](RankContext& c) {
                           Tensor t = Floats(c, 1000);
                           c.world().AllReduce(t).Wait();
                           if (c.rank() == 0)
                             bytes = c.memory().peak_by_category[static_cast<size_t>(Category::kCommunication)].value();
                           return std::string();
                         },
                         {.point_to_point_only = point_to_point_only})
                    .status.ok());
    return bytes;
  };
  EXPECT_EQ(peak(false), 0);
  EXPECT_EQ(peak(true), 3072);  // three shares of 250 f32, rounded up to 512
}

TEST(InMemoryFabric, MemoryOutsideTheLedgerIsNotNegativeAndSeesTheHeap) {
#ifdef TWOFOLD_SANITIZED
  GTEST_SKIP() << "sanitizers keep memory of their own for every byte of ours";
#endif
  constexpr size_t kSize = size_t{64} << 20;
  ASSERT_TRUE(RunRanks(1, [](RankContext& c) {
                EXPECT_GE(c.outside_ledger_bytes().value(), 0);
                std::vector<char> heap(kSize, 1);
                EXPECT_GT(c.outside_ledger_bytes().value(), static_cast<int64_t>(kSize / 2));
                Tensor t = Floats(c, 16 << 20);
                EXPECT_LT(c.outside_ledger_bytes().value(), static_cast<int64_t>(kSize * 3 / 2));
                return std::string(heap.data(), 1);
              }).status.ok());
}

// Neither `run` nor `bench` has a limit of its own.
TEST(InMemoryFabric, AcceptsAsManyRanksAsTheSystemLetsHaveThreads) {
  const auto fabric = MakeInMemoryFabric(spec::Spec());
  ASSERT_TRUE(fabric.ok());
  const ThreadLimit limit = MostThreads();
  const int64_t most = limit.threads / 2;
  ASSERT_LT(most, std::numeric_limits<int>::max()) << limit.what;
  EXPECT_TRUE((*fabric)->Accepts(static_cast<int>(most)).ok());
  EXPECT_EQ((*fabric)->Accepts(static_cast<int>(most + 1)).message(),
            StrCat("fabric.in_memory: ", most + 1, " ranks need 2 threads each, but this process may have only ",
                   limit.threads, " (", limit.what, "); use 1 to ", most, " ranks, or fabric.simulated"));
  EXPECT_FALSE((*fabric)->Accepts(0).ok());
}

TEST(InMemoryFabric, MoreRanksThanCores) {
  const RunResult result = RunRanks(32, [](RankContext& c) {
    Tensor t = Floats(c, 257);
    for (int i = 0; i < 5; ++i) c.world().AllReduce(t, ReduceOp::kAvg).Wait();
    return std::to_string(t.data<float>()[256]);
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, testing::Each("1.000000"));
}

TEST(Registry, OffersInMemoryByDefault) {
  auto fabric = MakeFabric(spec::Spec());
  ASSERT_TRUE(fabric.ok());
  EXPECT_EQ((*fabric)->name(), "in_memory");
  EXPECT_FALSE((*fabric)->predicted());
}

TEST(Registry, RefusesWhatTheBuildLacksAndNamesTheRest) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_nccl();
  const auto fabric = MakeFabric(spec);
  ASSERT_FALSE(fabric.ok());
  EXPECT_THAT(std::string(fabric.status().message()), testing::AllOf(HasSubstr("fabric.nccl"), HasSubstr("in_memory")));
}

TEST(Registry, RefusesGpusThatAreNotThereWithTheReason) {
  spec::Spec spec;
  spec.set_device(spec::CUDA);
  const std::string why = host::WhyNoCuda();
  const auto fabric = MakeFabric(spec);
  EXPECT_EQ(fabric.ok(), why.empty());
  if (!fabric.ok()) {
    EXPECT_THAT(std::string(fabric.status().message()),
                testing::AllOf(HasSubstr("device: CUDA is not available: " + why), HasSubstr("use CPU")));
    return;
  }
  spec.mutable_cuda()->add_gpus(0);
  spec.mutable_cuda()->add_gpus(1000);
  EXPECT_THAT(std::string(MakeFabric(spec).status().message()),
              HasSubstr("cuda.gpus[1]: this machine has no GPU 1000"));
}

TEST(MemoryRules, OfGpusAreCudasWhetherThereAreAnyOrNot) {
  spec::Spec spec;
  EXPECT_EQ(host::FindMemoryRules(spec, host::RanksAre::kThreads)->kind, DeviceKind::kCpu);
  spec.set_device(spec::CUDA);
  EXPECT_EQ(host::FindMemoryRules(spec, host::RanksAre::kThreads)->kind, DeviceKind::kCuda);
  EXPECT_EQ(host::FindMemoryRules(spec, host::RanksAre::kThreads)->device.value() > 0,
            host::WhyNoCuda().empty());  // what is free there
  spec.mutable_memory()->set_budget_mib(64);
  EXPECT_EQ(host::FindMemoryRules(spec, host::RanksAre::kThreads)->device, MiB(64));
}

TEST(CudaChoice, HasRanksTakeGpusInTurn) {
  const host::CudaChoice choice{.gpus = {2, 0}};
  EXPECT_EQ(choice.Of(0), 2);
  EXPECT_EQ(choice.Of(3), 0);
  EXPECT_EQ(choice.RanksOn(2, 5), 3);
  EXPECT_EQ(choice.RanksOn(0, 5), 2);
  EXPECT_EQ(choice.RanksOn(1, 5), 0);
}

}  // namespace fabric_test
}  // namespace twofold
