// CUDA graphs of a device: what repeats is launched by graphs, with the bits, the memory and the errors of launches one
// by one. (Of training: cuda_graph_strategies_test.cc.)
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/device/launch_sections.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/streams.h"
#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace cuda_graphs_test {

using ::testing::HasSubstr;

// ---- A device ----

// A device of a rank whose repeated launches are graphs.
struct GraphLab {
  explicit GraphLab(bool graphs = true, Bytes limit = Bytes(0))
      : source(0, limit), allocator(source, 0), device(allocator, host, 0, 0, {.graphs = graphs}) {}
  Tensor New(Shape shape) { return device.NewTensor(std::move(shape), DType::kF32, Category::kOther); }
  Tensor Of(const std::vector<float>& values) {
    Tensor t = New({static_cast<int64_t>(values.size())});
    device.Upload(
        t, [&values](std::span<std::byte> to) { std::ranges::copy(std::as_bytes(std::span(values)), to.begin()); });
    return t;
  }
  std::vector<float> ValuesOf(const Tensor& t) {
    std::vector<float> values(static_cast<size_t>(t.numel()));
    device.Download(t, std::as_writable_bytes(std::span(values)));
    return values;
  }
  void Launch(const ops::Op& op) { device.Launch(device.compute(), op); }

  cuda::GpuSource source;
  cuda::PinnedSource host_source{0};
  CachingAllocator allocator, host{host_source, 0, "host memory"};
  CudaDevice device;
};

using CudaGraphsTest = GpuTest;

TEST_F(CudaGraphsTest, WhatRepeatsIsCapturedTheSecondTimeAndReplayedFromThenOn) {
  GraphLab lab;
  const Tensor x = lab.Of({1, 2}), y = lab.New({2});
  for (int step = 0; step < 5; ++step) {
    lab.Launch(ops::Affine{.in = x, .out = y, .scale = 2, .shift = 1});
    lab.Launch(ops::Add{.a = x, .b = y, .out = x});
    lab.Launch(ops::Scale{.x = x, .factor = 0.5});
    lab.device.compute().Record();
    const CudaDevice::GraphCounts counts = lab.device.graph_counts();
    EXPECT_EQ(counts.graphs, step >= 1 ? 1 : 0);
    EXPECT_EQ(counts.replays, step);
    EXPECT_EQ(counts.replayed, 3 * step);
    EXPECT_EQ(counts.one_by_one, 3);
    EXPECT_EQ(counts.why_not, "");
  }
  std::vector<float> want = {1, 2};
  for (int step = 0; step < 5; ++step) {
    for (float& v : want) v = (v + (2 * v + 1)) / 2;
  }
  EXPECT_EQ(lab.ValuesOf(x), want);
}

// A learning rate, a factor and the key of draws differ in each step, and the number of the step does.
std::vector<float> AfterUpdates(bool graphs, int steps, CudaDevice::GraphCounts* counts) {
  GraphLab lab(graphs);
  const Tensor p = lab.Of({1, -2, 3, 0.5, 7, 9, -1, 4}), g = lab.Of({.1f, .2f, -.3f, .4f, 1, 2, 3, -4}),
               m = lab.New({8}), v = lab.New({8}), dropped = lab.New({8});
  lab.Launch(ops::Fill{m, 0}), lab.Launch(ops::Fill{v, 0});
  lab.device.compute().Record();
  for (int step = 1; step <= steps; ++step) {
    lab.Launch(ops::Dropout{.x = g, .y = dropped, .p = 0.5, .key = MakeKey(7, static_cast<uint64_t>(step))});
    lab.Launch(ops::Scale{.x = dropped, .factor = 1.0 / step});
    lab.Launch(ops::AdamStep{.param = p, .grad = dropped, .m = m, .v = v, .lr = 0.01 / step, .step = step});
    lab.device.compute().Record();
  }
  const std::vector<float> result = lab.ValuesOf(p);
  if (counts != nullptr) *counts = lab.device.graph_counts();
  return result;
}

TEST_F(CudaGraphsTest, NumbersThatDifferInEachStepAreUpdatedInTheGraph) {
  CudaDevice::GraphCounts counts;
  const std::vector<float> with = AfterUpdates(true, 6, &counts);
  EXPECT_EQ(with, AfterUpdates(false, 6, nullptr));
  EXPECT_EQ(counts.graphs, 1);
  EXPECT_EQ(counts.replays, 5);
  EXPECT_EQ(counts.updates, 3 * 4) << "of the second step, in which the graph is made, none";
  EXPECT_NE(with, AfterUpdates(false, 5, nullptr)) << "a step changes something";
}

TEST_F(CudaGraphsTest, OtherAddressesOrShapesAreOtherGraphs) {
  GraphLab lab;
  const Tensor a = lab.Of({1, 2, 3, 4}), b = lab.Of({5, 6, 7, 8});
  for (int step = 0; step < 4; ++step) {
    for (const Tensor& t : {a, b, a.Slice(0, 2)}) {
      for (int i = 0; i < 3; ++i) lab.Launch(ops::Scale{.x = t, .factor = 2});
      lab.device.compute().Record();
    }
  }
  EXPECT_EQ(lab.device.graph_counts().graphs, 3);
  const auto f = [](int doublings, float x) { return std::ldexp(x, doublings); };
  EXPECT_EQ(lab.ValuesOf(a), (std::vector<float>{f(24, 1), f(24, 2), f(12, 3), f(12, 4)}));
  EXPECT_EQ(lab.ValuesOf(b), (std::vector<float>{f(12, 5), f(12, 6), f(12, 7), f(12, 8)}));
}

TEST_F(CudaGraphsTest, FewOperationsAreNotWorthAGraphAndManyAreSeveral) {
  GraphLab lab;
  const Tensor a = lab.Of({0});
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 2; ++i) lab.Launch(ops::Affine{.in = a, .out = a, .scale = 1, .shift = 1});
    lab.device.compute().Record();
  }
  EXPECT_EQ(lab.device.graph_counts().graphs, 0);
  constexpr int kMany = static_cast<int>(LaunchSections::kMost) * 2 + 1;
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < kMany; ++i) lab.Launch(ops::Affine{.in = a, .out = a, .scale = 1, .shift = 1});
    lab.device.compute().Record();
  }
  const CudaDevice::GraphCounts counts = lab.device.graph_counts();
  EXPECT_EQ(counts.graphs, 1) << "the two halves are alike; what is behind them is one operation";
  EXPECT_EQ(lab.ValuesOf(a), std::vector<float>{6 + 3 * kMany});
}

// What is kept for a graph is launched before the memory that it uses may go.
TEST_F(CudaGraphsTest, MemoryGoesBackOnlyAfterWhatUsesItIsLaunched) {
  GraphLab lab;
  const Tensor sum = lab.Of({0});
  for (int step = 0; step < 4; ++step) {
    {
      const Tensor large = lab.New({8 << 20});  // a segment of its own
      lab.Launch(ops::Fill{large, 1});
      lab.Launch(ops::Scale{.x = large, .factor = 2});
      lab.Launch(ops::Sum{.in = large, .out = sum, .factor = 1.0 / (8 << 20), .accumulate = true});
    }
    lab.allocator.ReleaseCached();
    EXPECT_LT(lab.allocator.ledger().stats().reserved.value(), 32 << 20);
  }
  EXPECT_EQ(lab.ValuesOf(sum), std::vector<float>{8});
}

TEST_F(CudaGraphsTest, KeptOperationsKeepNoTensorAlive) {
  GraphLab lab;
  Tensor a = lab.New({1000});
  lab.Launch(ops::Fill{a, 1});
  EXPECT_TRUE(a.unique());
  const Bytes live = lab.allocator.ledger().stats().live;
  a = Tensor();
  EXPECT_LT(lab.allocator.ledger().stats().live.value(), live.value());
}

TEST_F(CudaGraphsTest, AnotherStreamSeesWhatWasLaunchedBeforeItsEvent) {
  GraphLab lab;
  const auto other = lab.device.NewStream("other");
  const Tensor a = lab.Of({1}), b = lab.New({1});
  for (int step = 0; step < 4; ++step) {
    for (int i = 0; i < 3; ++i) lab.Launch(ops::Scale{.x = a, .factor = 2});
    other->WaitFor(lab.device.compute().Record());
    lab.device.Launch(*other, ops::Cast{.in = a, .out = b});
    other->Synchronize();  // before the compute stream does anything else
  }
  EXPECT_EQ(lab.ValuesOf(b), std::vector<float>{std::ldexp(1.f, 12)});
}

#ifdef TWOFOLD_EMULATED_CUDA
TEST_F(CudaGraphsTest, AFailureNamesTheRankAndNothingIsKeptAfterIt) {
  GraphLab lab;
  const Tensor a = lab.Of({1});
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 3; ++i) lab.Launch(ops::Scale{.x = a, .factor = 2});
    lab.device.compute().Synchronize();
  }
  emulated::FailLater(static_cast<cuda::CudaStream&>(lab.device.compute()).raw(), cudaErrorIllegalAddress);
  std::string what;
  try {
    for (int i = 0; i < 3; ++i) lab.Launch(ops::Scale{.x = a, .factor = 2});
    lab.device.compute().Synchronize();
  } catch (const cuda::CudaError& e) {
    what = e.what();
  }
  EXPECT_THAT(what, HasSubstr("rank 0 on GPU 0: cudaErrorIllegalAddress"));
  EXPECT_THAT(what, HasSubstr("the last operation launched was scale of f32"));
  emulated::Recover();
}

// What a launch costs the host: steps that are replayed make no launches of kernels.
TEST_F(CudaGraphsTest, AReplayedSectionIsOneLaunch) {
  GraphLab lab;
  const Tensor a = lab.Of({1});
  const auto launches = [&] { return emulated::Calls(emulated::Call::kLaunch); };
  const auto graphs = [&] { return emulated::Calls(emulated::Call::kGraphLaunch); };
  for (int step = 0; step < 4; ++step) {
    const int64_t before = launches(), graphs_before = graphs();
    for (int i = 0; i < 20; ++i) lab.Launch(ops::Scale{.x = a, .factor = 1});
    lab.device.compute().Record();
    EXPECT_EQ(launches() - before, step == 0 ? 20 : 0) << step;
    EXPECT_EQ(graphs() - graphs_before, step == 0 ? 0 : 1) << step;
  }
}
#endif

}  // namespace cuda_graphs_test
}  // namespace twofold
