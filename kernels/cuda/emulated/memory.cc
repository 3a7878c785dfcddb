// CUDA's memory functions, and copies.
#include <cstring>
#include <memory>

#include "kernels/cuda/emulated/state.h"

namespace twofold::emulated {
namespace {

struct Rows {
  void* to;
  size_t to_pitch;
  const void* from;
  size_t from_pitch;
  size_t width, height;  // bytes, rows
};

void CopyRows(const Rows& r) {
  for (size_t i = 0; i < r.height; ++i) {
    std::memcpy(static_cast<std::byte*>(r.to) + i * r.to_pitch,
                static_cast<const std::byte*>(r.from) + i * r.from_pitch, r.width);
  }
}

cudaError_t Copy(const Rows& r, cudaMemcpyKind kind, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault, cudaErrorInvalidMemcpyDirection);
  if (r.width == 0 || r.height == 0) return cudaSuccess;
  TWOFOLD_RETURN_IF(r.to == nullptr || r.from == nullptr, cudaErrorInvalidValue);
  TWOFOLD_RETURN_IF(r.height > 1 && (r.width > r.to_pitch || r.width > r.from_pitch), cudaErrorInvalidPitchValue);
  const size_t to_bytes = (r.height - 1) * r.to_pitch + r.width, from_bytes = (r.height - 1) * r.from_pitch + r.width;
  const auto to = Cuda().memory.Find(r.to, to_bytes), from = Cuda().memory.Find(r.from, from_bytes);
  if (kind != cudaMemcpyDefault) {
    const bool to_gpu = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_gpu = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    TWOFOLD_RETURN_IF(OfGpu(to) != to_gpu || OfGpu(from) != from_gpu, cudaErrorInvalidValue);
  }
  TWOFOLD_RETURN_IF((to && !Within(to, r.to, to_bytes)) || (from && !Within(from, r.from, from_bytes)),
                    cudaErrorInvalidValue);
  // CUDA leaves overlapping copies undefined.
  const auto to_at = reinterpret_cast<uintptr_t>(r.to), from_at = reinterpret_cast<uintptr_t>(r.from);
  TWOFOLD_RETURN_IF(r.height == 1 && to_at < from_at + from_bytes && from_at < to_at + to_bytes, cudaErrorInvalidValue);

  if (!from && OfGpu(to)) {  // pageable source: the caller may change it after this returns
    auto staged = std::make_shared<std::vector<std::byte>>(r.width * r.height);
    Rows in = r, out = r;
    in.to = staged->data(), in.to_pitch = r.width;
    out.from = staged->data(), out.from_pitch = r.width;
    CopyRows(in);
    InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([out, staged] { CopyRows(out); }); });
    return cudaSuccess;
  }
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([r] { CopyRows(r); }); });
  if (!to) stream->Record()->Wait();  // pageable destination: the data must be there when this returns
  return Say(Failed());
}

}  // namespace
}  // namespace twofold::emulated

using namespace twofold::emulated;

cudaError_t cudaMalloc(void** address, size_t bytes) {
  TWOFOLD_RETURN_UNLESS_READY();
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  const size_t capacity = Cuda().bytes > kContext ? Cuda().bytes - kContext : 0;
  *address = Cuda().memory.Malloc(current_device, bytes, capacity);
  TWOFOLD_RETURN_IF(*address == nullptr, cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
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
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  *address = Cuda().memory.HostAlloc(current_device, bytes);
  TWOFOLD_RETURN_IF(*address == nullptr, cudaErrorMemoryAllocation);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, cudaHostAllocDefault); }
cudaError_t cudaFreeHost(void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  if (address == nullptr) return cudaSuccess;
  // CUDA does not promise to wait for work that still uses the memory.
  TWOFOLD_RETURN_IF(!Cuda().memory.Free(address, MemoryTable::Kind::kHost), cudaErrorInvalidValue);
  return Say(Failed());
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  const auto found = Cuda().memory.Find(address, 1);
  void* const at = const_cast<void*>(address);
  if (!found)
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, at};
  else if (OfGpu(found))
    *attributes = {cudaMemoryTypeDevice, found->device, at, nullptr};
  else
    *attributes = {cudaMemoryTypeHost, found->device, at, at};
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy({.to = to, .to_pitch = bytes, .from = from, .from_pitch = bytes, .width = bytes, .height = 1}, kind,
              stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy(
      {.to = to, .to_pitch = to_pitch, .from = from, .from_pitch = from_pitch, .width = width, .height = height}, kind,
      stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  TWOFOLD_RETURN_IF(!Within(Cuda().memory.Find(to, bytes), to, bytes), cudaErrorInvalidValue);
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([=] { std::memset(to, value, bytes); }); });
  return cudaSuccess;
}
