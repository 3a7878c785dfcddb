// CUDA's functions, over streams (stream.h), memory (device_memory.h) and blocks (multiprocessor.h).
#include "kernels/cuda/emulated/cuda_runtime.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/check.h"
#include "kernels/cuda/emulated/device_memory.h"
#include "kernels/cuda/emulated/multiprocessor.h"
#include "kernels/cuda/emulated/stream.h"

using twofold::emulated::Mark;
using twofold::emulated::MemoryTable;

struct CUevent_st {
  const int device;
  const bool timed;
  std::atomic<const Mark*> mark{nullptr};  // where it was recorded last
};

namespace twofold::emulated {
namespace {

constexpr size_t kContext = 256 << 20;     // bytes of each GPU
constexpr size_t kMaxShared = 227 << 10;   // bytes of a block, of an H100 (CUDA C++ Programming Guide, table of compute capabilities)
constexpr int kMultiprocessors = 4;        // few, so that kernels' threads go on through their grids
constexpr unsigned kMaxThreads = 1024;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*end != '\0') {
    std::fprintf(stderr, "%s is \"%s\": a number is right\n", name, text);
    std::exit(2);
  }
  return value;
}

struct Gpu {
  std::mutex mutex;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // all that ever were
  CUstream_st* null_stream = nullptr;
  std::atomic<const Mark*> null_mark{nullptr};        // the end of what the null stream was given
  std::atomic<bool> null_used{false};
};

struct Runtime {
  const uint64_t seed = FromEnvironment("TWOFOLD_EMULATED_ORDER", static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  const size_t bytes = FromEnvironment("TWOFOLD_EMULATED_GPU_MIB", 8192) << 20;
  std::deque<Gpu> gpus{FromEnvironment("TWOFOLD_EMULATED_GPUS", 1)};
  MemoryTable memory;
};
// Lives until the end, as streams' threads do.
Runtime& Cuda() {
  static Runtime& runtime = *new Runtime;
  return runtime;
}

constinit thread_local int current_device = 0;
constinit thread_local cudaError_t last_error = cudaSuccess;

cudaError_t Say(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// What any call gives before it looks at its arguments.
cudaError_t Ready() {
  if (OnStream()) return cudaErrorNotPermitted;
  if (Failed() != cudaSuccess) return Failed();
  return Cuda().gpus.empty() ? cudaErrorNoDevice : cudaSuccess;
}
#define TWOFOLD_RETURN_UNLESS_READY()                                      \
  if (const cudaError_t ready = twofold::emulated::Ready(); ready != cudaSuccess) return twofold::emulated::Say(ready)
#define TWOFOLD_RETURN_IF(condition, error) \
  if (condition) return twofold::emulated::Say(error)

Gpu& Current() { return Cuda().gpus[static_cast<size_t>(current_device)]; }

CUstream_st* NewStream(Gpu& gpu, bool blocking) {
  const std::scoped_lock lock(gpu.mutex);
  const uint64_t seed = Cuda().seed + 0x9e3779b97f4a7c15ULL * (gpu.streams.size() + 1);
  gpu.streams.push_back(std::make_unique<CUstream_st>(current_device, blocking, seed));
  return gpu.streams.back().get();
}

// All streams of a GPU but those destroyed.
std::vector<CUstream_st*> Streams(Gpu& gpu) {
  const std::scoped_lock lock(gpu.mutex);
  std::vector<CUstream_st*> streams;
  for (const auto& stream : gpu.streams) streams.push_back(stream.get());
  return streams;
}

// Null where `stream` cannot be used here.
CUstream_st* Find(cudaStream_t stream) {
  if (stream == nullptr) {
    Gpu& gpu = Current();
    if (gpu.null_stream == nullptr) {
      CUstream_st* made = NewStream(gpu, false);
      const std::scoped_lock lock(gpu.mutex);
      if (gpu.null_stream == nullptr) gpu.null_stream = made;
      gpu.null_used.store(true, std::memory_order_relaxed);
    }
    return gpu.null_stream;
  }
  return stream->alive() && stream->device == current_device ? stream : nullptr;
}

// Calls enqueue(stream), between the waits that the null stream brings with it.
template <class F>
void InOrder(cudaStream_t handle, CUstream_st* stream, F enqueue) {
  Gpu& gpu = Current();
  if (handle == nullptr) {
    for (CUstream_st* other : Streams(gpu)) {
      if (other->blocking && other->alive()) stream->WaitFor(other->Record());
    }
    enqueue(stream);
    gpu.null_mark.store(stream->Record(), std::memory_order_release);
    return;
  }
  if (stream->blocking && gpu.null_used.load(std::memory_order_relaxed)) {
    if (const Mark* mark = gpu.null_mark.load(std::memory_order_acquire)) stream->WaitFor(mark);
  }
  enqueue(stream);
}

void SynchronizeGpu(Gpu& gpu) {
  std::vector<const Mark*> marks;
  for (CUstream_st* stream : Streams(gpu)) {
    if (stream->alive()) marks.push_back(stream->Record());
  }
  for (const Mark* mark : marks) mark->Wait();
}

// ---- Copies ----

bool OfGpu(const std::optional<MemoryTable::Allocation>& a) { return a && a->kind == MemoryTable::Kind::kDevice; }
bool Within(const std::optional<MemoryTable::Allocation>& a, const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return a && a->begin <= begin && begin + bytes <= a->begin + a->bytes;
}

struct Rows {
  void* to;
  size_t to_pitch;
  const void* from;
  size_t from_pitch;
  size_t width, height;  // bytes, rows
};

void CopyRows(const Rows& r) {
  for (size_t i = 0; i < r.height; ++i) {
    std::memcpy(static_cast<std::byte*>(r.to) + i * r.to_pitch, static_cast<const std::byte*>(r.from) + i * r.from_pitch, r.width);
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
  TWOFOLD_RETURN_IF((to && !Within(to, r.to, to_bytes)) || (from && !Within(from, r.from, from_bytes)), cudaErrorInvalidValue);
  // What overlaps, CUDA leaves undefined.
  const auto to_at = reinterpret_cast<uintptr_t>(r.to), from_at = reinterpret_cast<uintptr_t>(r.from);
  TWOFOLD_RETURN_IF(r.height == 1 && to_at < from_at + from_bytes && from_at < to_at + to_bytes, cudaErrorInvalidValue);

  if (!from && OfGpu(to)) {  // pageable: the caller may change it when this returns
    auto staged = std::make_shared<std::vector<std::byte>>(r.width * r.height);
    Rows in = r, out = r;
    in.to = staged->data(), in.to_pitch = r.width;
    out.from = staged->data(), out.from_pitch = r.width;
    CopyRows(in);
    InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([out, staged] { CopyRows(out); }); });
    return cudaSuccess;
  }
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([r] { CopyRows(r); }); });
  if (!to) stream->Record()->Wait();  // pageable: it is there when this returns
  return Say(Failed());
}

cudaError_t Set(void* to, int value, size_t bytes, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  if (bytes == 0) return cudaSuccess;
  TWOFOLD_RETURN_IF(!Within(Cuda().memory.Find(to, bytes), to, bytes), cudaErrorInvalidValue);
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([=] { std::memset(to, value, bytes); }); });
  return cudaSuccess;
}

}  // namespace

// ---- Launches ----

cudaError_t Enqueue(cudaStream_t handle, dim3 grid, dim3 block, size_t shared, const void* name, std::function<void()> kernel) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  const bool blocks_fit = grid.x >= 1 && grid.x <= 0x7fffffffu && grid.y >= 1 && grid.y <= 65535 && grid.z >= 1 && grid.z <= 65535;
  TWOFOLD_RETURN_IF(!blocks_fit || threads == 0 || threads > kMaxThreads || block.z > 64, cudaErrorInvalidConfiguration);
  TWOFOLD_RETURN_IF(shared > kMaxShared, cudaErrorInvalidConfiguration);
  InOrder(handle, stream, [&](CUstream_st* s) {
    s->Enqueue([=, kernel = std::move(kernel)] {
      if (!Multiprocessor::Here()->Run({.grid = grid, .block = block, .shared = shared, .name = name, .kernel = &kernel})) SetFailed(cudaErrorLaunchFailure);
    });
  });
  return cudaSuccess;
}

cudaError_t EnqueueOnHost(cudaStream_t handle, std::function<void()> work) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue(std::move(work)); });
  return cudaSuccess;
}

void FailLater(cudaStream_t handle, cudaError_t error) {
  CUstream_st* stream = Find(handle);
  TWOFOLD_CHECK(stream != nullptr, "a stream of the current GPU");
  InOrder(handle, stream, [&](CUstream_st* s) { s->Enqueue([error] { SetFailed(error); }); });
}

uint64_t OrderSeed() { return Cuda().seed; }

}  // namespace twofold::emulated

using namespace twofold::emulated;

// ---- Errors ----

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return Failed() != cudaSuccess ? Failed() : last_error; }

namespace {
struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "cudaErrorInvalidPitchValue", "invalid pitch argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorNotPermitted, "cudaErrorNotPermitted", "operation not permitted"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};
const ErrorText* TextOf(cudaError_t error) {
  for (const ErrorText& e : kErrors) {
    if (e.error == error) return &e;
  }
  return nullptr;
}
}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
  const ErrorText* e = TextOf(error);
  return e != nullptr ? e->name : "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* e = TextOf(error);
  return e != nullptr ? e->text : "unrecognized error code";
}

// ---- Devices ----

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(Cuda().gpus.size());
  TWOFOLD_RETURN_UNLESS_READY();
  return cudaSuccess;
}
static bool IsGpu(int device) { return device >= 0 && device < static_cast<int>(Cuda().gpus.size()); }
cudaError_t cudaSetDevice(int device) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device), cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  TWOFOLD_RETURN_UNLESS_READY();
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device), cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof(p->name), "Emulated GPU");
  p->totalGlobalMem = Cuda().bytes;
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = kMaxShared;
  p->sharedMemPerMultiprocessor = kMaxShared + 1024;
  p->regsPerBlock = 65536;
  p->warpSize = warpSize;
  p->maxThreadsPerBlock = kMaxThreads;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = kMaxThreads, p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff, p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 9, p->minor = 0;
  p->multiProcessorCount = kMultiprocessors;
  p->maxThreadsPerMultiProcessor = 2048;
  p->l2CacheSize = 1 << 20;
  p->asyncEngineCount = 2;
  p->concurrentKernels = 1;
  p->pciBusID = device + 1;
  p->unifiedAddressing = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = static_cast<int>(p.sharedMemPerBlockOptin); break;
    default: return Say(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  TWOFOLD_RETURN_UNLESS_READY();
  *least = 0, *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  TWOFOLD_RETURN_UNLESS_READY();
  SynchronizeGpu(Current());
  return Say(Failed());
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(device) || !IsGpu(peer), cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(!IsGpu(peer) || peer == current_device, cudaErrorInvalidDevice);
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }

// ---- Memory ----

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
  for (Gpu& gpu : Cuda().gpus) SynchronizeGpu(gpu);
  TWOFOLD_RETURN_IF(!Cuda().memory.Free(address, MemoryTable::Kind::kHost), cudaErrorInvalidValue);
  return Say(Failed());
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(address == nullptr || bytes == 0, cudaErrorInvalidValue);
  TWOFOLD_RETURN_IF(!Cuda().memory.Register(current_device, address, bytes), cudaErrorHostMemoryAlreadyRegistered);
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  for (Gpu& gpu : Cuda().gpus) SynchronizeGpu(gpu);
  TWOFOLD_RETURN_IF(!Cuda().memory.Free(address, MemoryTable::Kind::kRegistered), cudaErrorHostMemoryNotRegistered);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  TWOFOLD_RETURN_UNLESS_READY();
  const auto found = Cuda().memory.Find(address, 1);
  void* const at = const_cast<void*>(address);
  if (!found) *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, at};
  else if (OfGpu(found)) *attributes = {cudaMemoryTypeDevice, found->device, at, nullptr};
  else *attributes = {cudaMemoryTypeHost, found->device, at, at};
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return Copy({.to = to, .to_pitch = bytes, .from = from, .from_pitch = bytes, .width = bytes, .height = 1}, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  return Copy({.to = to, .to_pitch = to_pitch, .from = from, .from_pitch = from_pitch, .width = width, .height = height}, kind, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) { return Set(to, value, bytes, stream); }
cudaError_t cudaMemset(void* to, int value, size_t bytes) { return Set(to, value, bytes, nullptr); }

// ---- Streams ----

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, cudaStreamDefault); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(flags > cudaStreamNonBlocking, cudaErrorInvalidValue);
  *stream = NewStream(Current(), flags == cudaStreamDefault);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  TWOFOLD_RETURN_IF(stream == nullptr || !stream->alive(), cudaErrorInvalidResourceHandle);
  stream->Close();
  return Say(Failed());
}
cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  InOrder(handle, stream, [](CUstream_st* s) { s->Record()->Wait(); });
  return Say(Failed());
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  CUstream_st* stream = Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  return Say(stream->idle() ? Failed() : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  CUstream_st* stream = handle != nullptr && handle->alive() ? handle : Find(handle);  // of any GPU
  TWOFOLD_RETURN_IF(stream == nullptr, cudaErrorInvalidResourceHandle);
  if (const Mark* mark = event->mark.load(std::memory_order_acquire)) InOrder(handle, stream, [=](CUstream_st* s) { s->WaitFor(mark); });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  TWOFOLD_RETURN_IF(function == nullptr, cudaErrorInvalidValue);
  return EnqueueOnHost(stream, [=] {
    ReachDeviceMemory(false);
    function(data);
    ReachDeviceMemory(true);
  });
}

// ---- Events ----

cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  TWOFOLD_RETURN_UNLESS_READY();
  *event = new CUevent_st{.device = current_device, .timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  delete event;
  return Say(Failed());
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  CUstream_st* stream = handle != nullptr && handle->alive() ? handle : Find(handle);
  TWOFOLD_RETURN_IF(stream == nullptr || stream->device != event->device, cudaErrorInvalidResourceHandle);
  InOrder(handle, stream, [=](CUstream_st* s) { event->mark.store(s->Record(), std::memory_order_release); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  const Mark* mark = event->mark.load(std::memory_order_acquire);
  return Say(mark == nullptr || mark->reached() ? Failed() : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(event == nullptr, cudaErrorInvalidResourceHandle);
  if (const Mark* mark = event->mark.load(std::memory_order_acquire)) mark->Wait();
  return Say(Failed());
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  TWOFOLD_RETURN_UNLESS_READY();
  TWOFOLD_RETURN_IF(start == nullptr || end == nullptr || !start->timed || !end->timed, cudaErrorInvalidResourceHandle);
  const Mark *from = start->mark.load(std::memory_order_acquire), *to = end->mark.load(std::memory_order_acquire);
  TWOFOLD_RETURN_IF(from == nullptr || to == nullptr, cudaErrorInvalidResourceHandle);
  TWOFOLD_RETURN_IF(!from->reached() || !to->reached(), cudaErrorNotReady);
  *ms = static_cast<float>((to->time() - from->time()) * 1e3);
  return cudaSuccess;
}
