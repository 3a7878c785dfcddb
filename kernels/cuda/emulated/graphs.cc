// CUDA's capture of streams and its graphs.
#include "kernels/cuda/emulated/graphs.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/emulated/multiprocessor.h"
#include "kernels/cuda/emulated/state.h"

// A graph that can be launched. Its nodes have work of their own, so that it can be changed without its graph.
struct CUgraphExec_st {
  int device;
  std::vector<std::pair<const CUgraphNode_st*, std::function<void()>>> work;
};

namespace twofold::emulated {
namespace {

// The capturing streams. Streams that capture nothing are not looked up here (CUstream_st::capturing).
std::mutex captures_mutex;
std::map<cudaStream_t, std::unique_ptr<Capture>>& Captures() {
  static auto& captures = *new std::map<cudaStream_t, std::unique_ptr<Capture>>;
  return captures;
}
constinit thread_local int begun_here = 0;  // captures of this thread whose mode is not relaxed

bool CanBeUsed(const CUgraphNode_st* node, const CUgraphExec_st& exec) {
  return std::ranges::any_of(exec.work, [node](const auto& of) { return of.first == node; });
}

}  // namespace

std::function<void()> KernelWork(const cudaKernelNodeParams& params, std::function<void()> kernel) {
  return [=, kernel = std::move(kernel)] {
    if (!Multiprocessor::Here()->Run({.grid = params.gridDim,
                                      .block = params.blockDim,
                                      .shared = params.sharedMemBytes,
                                      .name = params.func,
                                      .kernel = &kernel}))
      SetFailed(cudaErrorLaunchFailure);
  };
}

Capture* CaptureOf(cudaStream_t stream) {
  if (stream == nullptr || !stream->capturing.load(std::memory_order_relaxed)) return nullptr;
  const std::scoped_lock lock(captures_mutex);
  const auto found = Captures().find(stream);
  return found == Captures().end() ? nullptr : found->second.get();
}

cudaError_t Append(Capture& capture, CUgraphNode_st node) {
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = capture.graph->nodes;
  nodes.push_back(std::make_unique<CUgraphNode_st>(std::move(node)));
  nodes.back()->before = capture.last;
  nodes.back()->params.kernelParams = reinterpret_cast<void**>(&nodes.back()->kernel);
  capture.last = nodes.back().get();
  return cudaSuccess;
}

cudaError_t CaptureWork(cudaStream_t stream, cudaGraphNodeType type, std::function<void()> work) {
  return Append(*CaptureOf(stream), {.type = type, .work = std::move(work)});
}

cudaError_t ForbiddenOn(cudaStream_t stream) {
  Capture* capture = CaptureOf(stream);
  if (capture == nullptr) return cudaSuccess;
  capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t ForbiddenWhileCapturing() {
  if (begun_here == 0) return cudaSuccess;
  const std::scoped_lock lock(captures_mutex);
  for (const auto& [stream, capture] : Captures()) {
    if (capture->thread == std::this_thread::get_id() && capture->mode != cudaStreamCaptureModeRelaxed)
      capture->invalid = true;
  }
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t ForbiddenWhileGpuCaptures(int gpu) {
  const std::scoped_lock lock(captures_mutex);
  cudaError_t found = cudaSuccess;
  for (const auto& [stream, capture] : Captures()) {
    if (stream->device != gpu) continue;
    capture->invalid = true;
    found = cudaErrorStreamCaptureUnsupported;
  }
  return found;
}

}  // namespace twofold::emulated

using namespace twofold::emulated;

// ---- Capture ----

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorStreamCaptureUnsupported);
  TWOFOLD_RETURN_IF(!stream->alive(), cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(mode == cudaStreamCaptureModeGlobal,
                    cudaErrorNotPermitted);  // other threads' calls are not watched
  TWOFOLD_RETURN_IF(CaptureOf(stream) != nullptr, cudaErrorIllegalState);
  const std::scoped_lock lock(captures_mutex);
  Captures()[stream].reset(new Capture{.mode = mode, .thread = std::this_thread::get_id()});
  stream->capturing.store(true, std::memory_order_relaxed);
  if (mode != cudaStreamCaptureModeRelaxed) ++begun_here;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  TWOFOLD_RETURN_UNLESS_READY();
  *graph = nullptr;
  Capture* capture = CaptureOf(stream);
  TWOFOLD_RETURN_IF(capture == nullptr, cudaErrorIllegalState);
  const bool relaxed = capture->mode == cudaStreamCaptureModeRelaxed;
  TWOFOLD_RETURN_IF(!relaxed && capture->thread != std::this_thread::get_id(), cudaErrorStreamCaptureWrongThread);
  const std::scoped_lock lock(captures_mutex);
  const std::unique_ptr<Capture> ended = std::move(Captures().extract(stream).mapped());
  stream->capturing.store(false, std::memory_order_relaxed);
  if (!relaxed) --begun_here;
  TWOFOLD_RETURN_IF(ended->invalid, cudaErrorStreamCaptureInvalidated);
  *graph = ended->graph.release();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(stream, status);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                                     cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  TWOFOLD_RETURN_UNLESS_READY();
  Capture* capture = CaptureOf(stream);
  *status = capture == nullptr ? cudaStreamCaptureStatusNone
            : capture->invalid ? cudaStreamCaptureStatusInvalidated
                               : cudaStreamCaptureStatusActive;
  if (*status != cudaStreamCaptureStatusActive) return cudaSuccess;
  if (id != nullptr) *id = reinterpret_cast<uintptr_t>(capture);
  if (graph != nullptr) *graph = capture->graph.get();
  if (dependencies != nullptr) *dependencies = &capture->last;
  static const cudaGraphEdgeData plain = {};
  if (edges != nullptr) *edges = &plain;
  if (count != nullptr) *count = capture->last != nullptr ? 1 : 0;
  return cudaSuccess;
}

// ---- Graphs ----

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  TWOFOLD_RETURN_IF(node == nullptr, cudaErrorInvalidValue);
  *type = node->type;
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                                         size_t* count) {
  TWOFOLD_RETURN_IF(node == nullptr || count == nullptr, cudaErrorInvalidValue);
  const size_t room = *count;
  *count = node->before != nullptr ? 1 : 0;
  if (dependencies == nullptr || room == 0 || *count == 0) return cudaSuccess;
  dependencies[0] = node->before;
  if (edges != nullptr) edges[0] = {};
  return cudaSuccess;
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* params) {
  TWOFOLD_RETURN_IF(node == nullptr || node->type != cudaGraphNodeTypeKernel, cudaErrorInvalidValue);
  *params = node->params;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  TWOFOLD_RETURN_IF(graph == nullptr, cudaErrorInvalidValue);
  delete graph;
  return Say(Failed());
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long flags) {
  TWOFOLD_RETURN_UNLESS_READY();
  *made = nullptr;
  TWOFOLD_RETURN_IF(graph == nullptr || flags != 0, cudaErrorInvalidValue);
  auto exec = std::make_unique<CUgraphExec_st>(CUgraphExec_st{.device = current_device, .work = {}});
  for (const auto& node : graph->nodes) {
    exec->work.emplace_back(
        node.get(), node->type == cudaGraphNodeTypeKernel ? KernelWork(node->params, node->kernel) : node->work);
  }
  *made = exec.release();
  return cudaSuccess;
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* params) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(exec == nullptr || node == nullptr || params == nullptr, cudaErrorInvalidValue);
  TWOFOLD_RETURN_IF(!CanBeUsed(node, *exec) || node->type != cudaGraphNodeTypeKernel, cudaErrorInvalidValue);
  const auto& kernel = *reinterpret_cast<const std::function<void()>*>(params->kernelParams);
  for (auto& [of, work] : exec->work) {
    if (of == node) work = KernelWork(*params, kernel);
  }
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(exec == nullptr || stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(ForbiddenOn(handle) != cudaSuccess, cudaErrorStreamCaptureUnsupported);  // a child graph
  TWOFOLD_RETURN_IF(exec->device != stream->device, cudaErrorInvalidValue);
  CountCall(Call::kGraphLaunch);
  if (Discards()) return cudaSuccess;
  InOrder(handle, stream, [exec](CUstream_st* s) {
    for (const auto& [node, work] : exec->work) s->Enqueue(work);  // a copy: the graph may be changed meanwhile
  });
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  TWOFOLD_RETURN_IF(exec == nullptr, cudaErrorInvalidValue);
  delete exec;
  return Say(Failed());
}
