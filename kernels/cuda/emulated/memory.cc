// CUDA's memory functions, and copies.
#include <cstring>

#include "kernels/cuda/emulated/state.h"

namespace twofold::emulated {
namespace {

cudaError_t Copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
  if (bytes == 0) return cudaSuccess;
  TWOFOLD_RETURN_IF(to == nullptr || from == nullptr, cudaErrorInvalidValue);
  const auto target = Cuda().memory.Find(to, bytes), source = Cuda().memory.Find(from, bytes);
  if (kind != cudaMemcpyDefault) {
    const bool to_gpu = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_gpu = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    TWOFOLD_RETURN_IF(OfGpu(target) != to_gpu || OfGpu(source) != from_gpu, cudaErrorInvalidValue);
  }
  TWOFOLD_RETURN_IF((target && !Within(target, to, bytes)) || (source && !Within(source, from, bytes)),
                    cudaErrorInvalidValue);
  // CUDA leaves overlapping copies undefined.
  const auto to_at = reinterpret_cast<uintptr_t>(to), from_at = reinterpret_cast<uintptr_t>(from);
  TWOFOLD_RETURN_IF(to_at < from_at + bytes && from_at < to_at + bytes, cudaErrorInvalidValue);
  if (CaptureOf(handle) != nullptr) {
    if (!source || !target) return Say(ForbiddenOn(handle));  // pageable memory
    return Say(CaptureWork(handle, cudaGraphNodeTypeMemcpy, [=] { std::memcpy(to, from, bytes); }));
  }
  if (!source && OfGpu(target)) {  // pageable source: the caller may change it after this returns
    const auto* begin = static_cast<const std::byte*>(from);
    InOrder(handle, stream, [&](CUstream_st* s) {
      s->Enqueue([to, staged = std::vector(begin, begin + bytes)] { std::memcpy(to, staged.data(), staged.size()); });
    });
    return cudaSuccess;
  }
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([=] { std::memcpy(to, from, bytes); }); });
  if (!target) stream->Record()->Wait();  // pageable destination: the data must be there when this returns
  return Say(Failed());
}

}  // namespace
}  // namespace twofold::emulated

using namespace twofold::emulated;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const size_t capacity = Cuda().bytes > kContext ? Cuda().bytes - kContext : 0;
  *address = Cuda().memory.Malloc(current_device, bytes, capacity);
  TWOFOLD_RETURN_IF(*address == nullptr, cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  if (address == nullptr) return cudaSuccess;
  const auto found = Cuda().memory.Find(address, 1);
  TWOFOLD_RETURN_IF(!OfGpu(found), cudaErrorInvalidValue);
  SynchronizeGpu(Cuda().gpus[static_cast<size_t>(found->device)]);
  TWOFOLD_RETURN_IF(!Cuda().memory.Free(address, MemoryTable::Kind::kDevice), cudaErrorInvalidValue);
  return Say(Failed());
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  TWOFOLD_RETURN_UNLESS_READY();
  *total = Cuda().bytes;
  const size_t used = kContext + Cuda().memory.used(current_device);
  *free = used < *total ? *total - used : 0;
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = Cuda().memory.HostAlloc(current_device, bytes);
  TWOFOLD_RETURN_IF(*address == nullptr, cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); }
cudaError_t cudaFreeHost(void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF_CAPTURING();
  if (address == nullptr) return cudaSuccess;
  // CUDA does not promise to wait for work that still uses the memory.
  TWOFOLD_RETURN_IF(!Cuda().memory.Free(address, MemoryTable::Kind::kHost), cudaErrorInvalidValue);
  return Say(Failed());
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy(to, from, bytes, kind, stream);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  TWOFOLD_RETURN_IF_CAPTURING();
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  TWOFOLD_RETURN_IF(!Within(Cuda().memory.Find(to, bytes), to, bytes), cudaErrorInvalidValue);
  if (CaptureOf(handle) != nullptr)
    return Say(CaptureWork(handle, cudaGraphNodeTypeMemset, [=] { std::memset(to, value, bytes); }));
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([=] { std::memset(to, value, bytes); }); });
  return cudaSuccess;
}
