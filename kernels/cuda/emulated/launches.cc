// Kernel launches, and our other ways to enqueue work on streams.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "kernels/cuda/emulated/launch_record.h"
#include "kernels/cuda/emulated/state.h"

namespace twofold::emulated {

namespace {

bool LoadsLazily() {
#ifdef __SANITIZE_THREAD__
  return false;
#else
  const char* loading = std::getenv("CUDA_MODULE_LOADING");
  return loading == nullptr || std::string_view(loading) != "EAGER";
#endif
}

}  // namespace

cudaError_t Enqueue(cudaStream_t handle, dim3 grid, dim3 block, size_t shared, const void* name,
                    std::function<void()> kernel) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool blocks_fit =
      grid.x >= 1 && grid.x <= 0x7fffffffu && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
  TWOFOLD_RETURN_IF(!blocks_fit || threads == 0 || threads > kMaxThreads || block.z > 64,
                    cudaErrorInvalidConfiguration);
  Kernels::Kernel& known = Cuda().kernels[static_cast<size_t>(current_device)].Of(name);
  TWOFOLD_RETURN_IF(shared > known.most_shared.load(std::memory_order_relaxed), cudaErrorInvalidValue);
  const cudaKernelNodeParams params = {.func = const_cast<void*>(name),
                                       .gridDim = grid,
                                       .blockDim = block,
                                       .sharedMemBytes = static_cast<unsigned>(shared),
                                       .kernelParams = nullptr,
                                       .extra = nullptr};
  if (Capture* capture = CaptureOf(handle); capture != nullptr) {
    if (LoadsLazily() && !known.loaded.load(std::memory_order_relaxed)) return Say(ForbiddenOn(handle));
    return Say(Append(*capture, {.type = cudaGraphNodeTypeKernel, .params = params, .kernel = std::move(kernel)}));
  }
  CountCall(Call::kLaunch);
  if (Discards()) return cudaSuccess;
  RecordLaunch(name, threads, shared);
  if (!known.loaded.exchange(true, std::memory_order_relaxed) && LoadsLazily()) SynchronizeGpu(Current());
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue(KernelWork(params, std::move(kernel))); });
  return cudaSuccess;
}

cudaError_t SetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  TWOFOLD_RETURN_UNLESS_READY();
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
  TWOFOLD_RETURN_IF(value < 0 || static_cast<size_t>(value) > kMaxShared, cudaErrorInvalidValue);
  Cuda().kernels[static_cast<size_t>(current_device)].Of(kernel).most_shared.store(
      std::max(kSharedWithoutAsking, static_cast<size_t>(value)), std::memory_order_relaxed);
  return cudaSuccess;
}

cudaError_t EnqueueOnHost(cudaStream_t handle, std::function<void()> work) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  if (CaptureOf(handle) != nullptr) return Say(CaptureWork(handle, cudaGraphNodeTypeHost, std::move(work)));
  if (Discards()) return cudaSuccess;
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue(std::move(work)); });
  return cudaSuccess;
}

void FailLater(cudaStream_t handle, cudaError_t error) {
  CUstream_st* stream = Find(handle);
  TWOFOLD_CHECK(stream != nullptr, "a stream of the current GPU");
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([error] { SetFailed(error); }); });
}

}  // namespace twofold::emulated
