// State shared by the CUDA functions: the GPUs, their streams and memory, and the current GPU of each host thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/check.h"
#include "kernels/cuda/emulated/cuda_runtime.h"
#include "kernels/cuda/emulated/device_memory.h"
#include "kernels/cuda/emulated/graphs.h"
#include "kernels/cuda/emulated/stream.h"

namespace twofold::emulated {

inline constexpr size_t kContext = 256 << 20;  // bytes of each GPU
// per block, of an H100 (CUDA C++ Programming Guide, table of compute capabilities)
inline constexpr size_t kMaxShared = 227 << 10;
inline constexpr size_t kSharedWithoutAsking = 48 << 10;
inline constexpr unsigned kMaxThreads = 1024;

struct Gpu {
  std::mutex mutex;
  std::vector<std::unique_ptr<CUstream_st>> streams;  // all ever created
  std::atomic<CUstream_st*> null_stream{nullptr};
  std::atomic<const Mark*> null_mark{nullptr};  // the end of the null stream's work so far
  std::atomic<bool> null_used{false};
};

// The kernels of one GPU that have been launched or have requested more shared memory than the default maximum. It uses
// no locks, because they would order threads (stream.h).
class Kernels {
 public:
  struct Kernel {
    std::atomic<const void*> address{nullptr};
    std::atomic<bool> loaded{false};
    std::atomic<size_t> most_shared{kSharedWithoutAsking};
  };
  Kernel& Of(const void* address) {
    size_t at = reinterpret_cast<uintptr_t>(address) / 16 % kernels_.size();
    for (size_t tries = 0; tries < kernels_.size(); ++tries, at = (at + 1) % kernels_.size()) {
      const void* there = nullptr;
      if (kernels_[at].address.compare_exchange_strong(there, address, std::memory_order_relaxed) || there == address)
        return kernels_[at];
    }
    TWOFOLD_CHECK(false, "the table has room for all kernels");
  }

 private:
  std::array<Kernel, 8192> kernels_;
};

// Reads a number from an environment variable; text that is not a number ends the process.
uint64_t FromEnvironment(const char* name, uint64_t otherwise);

struct Runtime {
  const uint64_t seed = FromEnvironment(
      "TWOFOLD_EMULATED_ORDER", static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
  const size_t bytes = FromEnvironment("TWOFOLD_EMULATED_GPU_MIB", 8192) << 20;
  std::deque<Gpu> gpus{FromEnvironment("TWOFOLD_EMULATED_GPUS", 1)};
  std::deque<Kernels> kernels{gpus.size()};  // one for each GPU
  MemoryTable memory;
};
Runtime& Cuda();  // exists until the process ends, as the streams' threads do

extern constinit thread_local int current_device;
extern constinit thread_local cudaError_t last_error;

cudaError_t Say(cudaError_t error);
// The error that every call returns before it checks its arguments.
cudaError_t Ready();
#define TWOFOLD_RETURN_UNLESS_READY() \
  if (const cudaError_t ready = twofold::emulated::Ready(); ready != cudaSuccess) return twofold::emulated::Say(ready)
#define TWOFOLD_RETURN_IF(condition, error) \
  if (condition) return twofold::emulated::Say(error)

// Returns from a call that CUDA forbids while this thread captures, or on a stream that captures (graphs.h).
#define TWOFOLD_RETURN_IF_CAPTURING()                                                       \
  if (const cudaError_t e = twofold::emulated::ForbiddenWhileCapturing(); e != cudaSuccess) \
  return twofold::emulated::Say(e)
#define TWOFOLD_RETURN_IF_CAPTURED(stream) \
  if (const cudaError_t e = twofold::emulated::ForbiddenOn(stream); e != cudaSuccess) return twofold::emulated::Say(e)

void CountCall(Call call);
// TWOFOLD_EMULATED_DISCARD=1: launches are dropped, so that the host's cost of launching can be measured.
bool Discards();

Gpu& Current();
bool IsGpu(int device);
CUstream_st* NewStream(Gpu& gpu, bool blocking);
// All streams of a GPU but those destroyed.
std::vector<CUstream_st*> Streams(Gpu& gpu);
// Null if `stream` cannot be used here.
CUstream_st* Find(cudaStream_t stream);
void SynchronizeGpu(Gpu& gpu);

// Calls enqueue(stream) between the waits that the null stream requires.
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

bool OfGpu(const std::optional<MemoryTable::Allocation>& a);
bool Within(const std::optional<MemoryTable::Allocation>& a, const void* address, size_t bytes);

}  // namespace twofold::emulated
