// Capture of streams, and the graphs that come of it. The rules are in cuda_runtime.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/cuda/emulated/cuda_runtime.h"

// A node of a graph. Nodes follow each other, as the work of one stream does.
struct CUgraphNode_st {
  cudaGraphNodeType type;
  CUgraphNode_st* before = nullptr;  // null for the first
  std::function<void()> work = {};   // what a stream's thread does; empty for a kernel
  cudaKernelNodeParams params = {};  // of a kernel; kernelParams points to `kernel`
  std::function<void()> kernel = {};
};

struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};

namespace twofold::emulated {

// What a stream is capturing.
struct Capture {
  const cudaStreamCaptureMode mode;
  const std::thread::id thread;  // that began it
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
  std::atomic<bool> invalid{false};  // a wait for the GPU on any thread makes it so
  CUgraphNode_st* last = nullptr;    // what cudaStreamGetCaptureInfo points to
};

// A kernel launch as a step of a stream.
std::function<void()> KernelWork(const cudaKernelNodeParams& params, std::function<void()> kernel);

// The capture of this stream; null if it captures nothing.
Capture* CaptureOf(cudaStream_t stream);
// Makes `node` the next node of a capture's graph.
cudaError_t Append(Capture& capture, CUgraphNode_st node);
// The same for work that is no kernel. The stream must be capturing.
cudaError_t CaptureWork(cudaStream_t stream, cudaGraphNodeType type, std::function<void()> work);
// For calls that a capturing stream forbids: makes its capture invalid. cudaSuccess if it captures nothing.
cudaError_t ForbiddenOn(cudaStream_t stream);
// For calls that wait for the GPU or change its memory: they make the captures that this thread began invalid, unless
// their mode is relaxed. cudaSuccess if there are none.
cudaError_t ForbiddenWhileCapturing();
// For calls that wait for a whole GPU: they make every capture of its streams invalid, whoever began it and in any mode
// (CUDA C++ Programming Guide, "Prohibited and Unhandled Operations" of stream capture).
cudaError_t ForbiddenWhileGpuCaptures(int gpu);

}  // namespace twofold::emulated
