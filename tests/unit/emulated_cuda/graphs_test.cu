// The capture of streams and the graphs that come of it: what they do, and what CUDA forbids.
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch.h"
#include "tests/unit/emulated_cuda/on_gpu.h"

namespace twofold::cuda {
namespace {

using ::twofold::emulated_test::EmulatedCuda;
using ::twofold::emulated_test::OnGpu;

__global__ void PlusTimes(int* x, int plus, int times) { *x = (*x + plus) * times; }
__global__ void NeverLaunched(int*) {}

class Graphs : public EmulatedCuda {
 protected:
  void SetUp() override {
    EmulatedCuda::SetUp();
    Check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  void TearDown() override {
    cudaGetLastError();
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaEventDestroy(event_);
    EmulatedCuda::TearDown();
  }
  void Begin() { Check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal)); }
  void End() {
    Check(cudaStreamEndCapture(stream_, &graph_));
    Check(cudaGraphInstantiate(&exec_, graph_));
  }
  // What `call` returns while the stream captures; the capture must be invalid afterwards, and the stream usable.
  template <class F>
  cudaError_t WhileCapturing(F&& call) {
    Begin();
    const cudaError_t error = call();
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
    EXPECT_EQ(ended, error == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return error;
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(Graphs, DoNothingBeforeTheyAreLaunchedAndThenAllInOrderEachTime) {
  OnGpu<int> x(1, 1), y(1, 0), z(1, 7);
  Begin();
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10);
  Check(cudaMemcpyAsync(y.get(), x.get(), sizeof(int), cudaMemcpyDeviceToDevice, stream_));
  Launch(PlusTimes, 1, 1, 0, stream_, y.get(), 5, 1);
  Check(cudaMemsetAsync(z.get(), 0, sizeof(int), stream_));
  End();
  Check(cudaStreamSynchronize(stream_));
  EXPECT_EQ(x.Download(stream_)[0], 1);
  EXPECT_EQ(z.Download(stream_)[0], 7);
  Check(cudaGraphLaunch(exec_, stream_));
  Check(cudaGraphLaunch(exec_, stream_));
  EXPECT_EQ(x.Download(stream_)[0], 210);
  EXPECT_EQ(y.Download(stream_)[0], 215);
  EXPECT_EQ(z.Download(stream_)[0], 0);
}

TEST_F(Graphs, ANodesParametersAreTakenFromAnotherCapture) {
  OnGpu<int> x(1, 1);
  Begin();
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10);
  const cudaGraphNode_t* last = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  size_t count = 0;
  Check(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, nullptr, &count));
  ASSERT_EQ(status, cudaStreamCaptureStatusActive);
  ASSERT_EQ(count, 1u);
  const cudaGraphNode_t first = last[0];
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 0, 1);
  End();
  Begin();
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 3, 100);
  Check(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, nullptr, &count));
  const cudaGraphNode_t changed = last[0];
  cudaGraph_t other = nullptr;
  Check(cudaStreamEndCapture(stream_, &other));
  cudaKernelNodeParams params = {};
  Check(cudaGraphKernelNodeGetParams(changed, &params));
  Check(cudaGraphLaunch(exec_, stream_));
  Check(cudaGraphExecKernelNodeSetParams(exec_, first, &params));  // those launched before are as they were
  EXPECT_EQ(cudaGraphExecKernelNodeSetParams(exec_, changed, &params), cudaErrorInvalidValue) << "of another graph";
  Check(cudaGraphDestroy(other));
  Check(cudaGraphLaunch(exec_, stream_));
  EXPECT_EQ(x.Download(stream_)[0], 2300);
}

TEST_F(Graphs, NodesKnowWhatTheyAreAndWhomTheyFollow) {
  OnGpu<int> x(1, 1), y(1, 1);
  Begin();
  Check(cudaMemcpyAsync(y.get(), x.get(), sizeof(int), cudaMemcpyDeviceToDevice, stream_));
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10);
  const cudaGraphNode_t* last = nullptr;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  size_t count = 0;
  Check(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, nullptr, &count));
  const cudaGraphNode_t kernel = last[0];
  End();
  cudaGraphNodeType type = cudaGraphNodeTypeHost;
  Check(cudaGraphNodeGetType(kernel, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeKernel);
  cudaGraphNode_t before = nullptr;
  size_t befores = 1;
  Check(cudaGraphNodeGetDependencies(kernel, &before, nullptr, &befores));
  ASSERT_EQ(befores, 1u);
  Check(cudaGraphNodeGetType(before, &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemcpy);
  cudaKernelNodeParams params = {};
  EXPECT_EQ(cudaGraphKernelNodeGetParams(before, &params), cudaErrorInvalidValue) << "no kernel";
  Check(cudaGraphNodeGetDependencies(before, nullptr, nullptr, &befores));
  EXPECT_EQ(befores, 0u);
}

TEST_F(Graphs, WhatWaitsOrAllocatesIsForbiddenDuringACapture) {
  OnGpu<int> x(1, 1);
  int host = 0;
  void* memory = nullptr;
  const auto kUnsupported = cudaErrorStreamCaptureUnsupported;
  EXPECT_EQ(WhileCapturing([&] { return cudaStreamSynchronize(stream_); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaStreamQuery(stream_); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaDeviceSynchronize(); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaEventRecord(event_, stream_); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaStreamWaitEvent(stream_, event_); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaEventSynchronize(event_); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaMalloc(&memory, 4); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaFree(x.get()); }), kUnsupported);
  EXPECT_EQ(WhileCapturing([&] { return cudaHostAlloc(&memory, 4, 0); }), kUnsupported);
  const auto copy = [&](void* to, const void* from) {
    return WhileCapturing([=, this] { return cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDefault, stream_); });
  };
  EXPECT_EQ(copy(x.get(), &host), kUnsupported) << "from pageable memory";
  EXPECT_EQ(copy(&host, x.get()), kUnsupported) << "to pageable memory";
  EXPECT_EQ(x.Download(stream_)[0], 1);
}

TEST_F(Graphs, AfterAForbiddenCallNothingIsCapturedAnyMore) {
  OnGpu<int> x(1, 1);
  Begin();
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorStreamCaptureUnsupported);
  EXPECT_THROW(Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10), CudaError);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Check(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph_, nullptr);
  cudaGetLastError();
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10);
  EXPECT_EQ(x.Download(stream_)[0], 20);
}

#ifndef __SANITIZE_THREAD__  // under which kernels are not loaded lazily
TEST_F(Graphs, AKernelIsLoadedBeforeItIsCaptured) {
  OnGpu<int> x(1, 1);
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  Begin();
  EXPECT_THROW(Launch(NeverLaunched, 1, 1, 0, stream_, x.get()), CudaError);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}
#endif

TEST_F(Graphs, OnlyTheThreadThatBeganACaptureIsBoundByItAndMayEndIt) {
  OnGpu<int> x(1, 1);
  Begin();
  std::thread([&] {
    Check(cudaSetDevice(0));
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 4), cudaSuccess);
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  Launch(PlusTimes, 1, 1, 0, stream_, x.get(), 1, 10);
  End();
  Check(cudaGraphLaunch(exec_, stream_));
  EXPECT_EQ(x.Download(stream_)[0], 20);
}

TEST_F(Graphs, AWaitForTheWholeGpuEndsACaptureOfAnyThread) {
  Begin();
  std::thread([] {
    Check(cudaSetDevice(0));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  }).join();
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, TheNullStreamAndIdleStreamsHaveNoCapture) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph_), cudaErrorIllegalState);
  Begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), cudaErrorIllegalState) << "it captures";
  Check(cudaStreamEndCapture(stream_, &graph_));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  Check(cudaStreamIsCapturing(stream_, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
}

}  // namespace
}  // namespace twofold::cuda
