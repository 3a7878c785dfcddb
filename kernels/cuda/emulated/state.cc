#include "kernels/cuda/emulated/state.h"

#include <cstdio>
#include <cstdlib>

namespace twofold::emulated {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (*end != '\0') {
    std::fprintf(stderr, "%s must be a number (got \"%s\")\n", name, text);
    std::exit(2);
  }
  return value;
}

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

cudaError_t Ready() {
  if (OnStream()) return cudaErrorNotPermitted;
  if (Failed() != cudaSuccess) return Failed();
  return Cuda().gpus.empty() ? cudaErrorNoDevice : cudaSuccess;
}

Gpu& Current() { return Cuda().gpus[static_cast<size_t>(current_device)]; }
bool IsGpu(int device) { return device >= 0 && device < static_cast<int>(Cuda().gpus.size()); }

CUstream_st* NewStream(Gpu& gpu, bool blocking) {
  const std::scoped_lock lock(gpu.mutex);
  const uint64_t seed = Cuda().seed + 0x9e3779b97f4a7c15ULL * (gpu.streams.size() + 1);
  gpu.streams.push_back(std::make_unique<CUstream_st>(current_device, blocking, seed));
  return gpu.streams.back().get();
}

std::vector<CUstream_st*> Streams(Gpu& gpu) {
  const std::scoped_lock lock(gpu.mutex);
  std::vector<CUstream_st*> streams;
  for (const auto& stream : gpu.streams) streams.push_back(stream.get());
  return streams;
}

CUstream_st* Find(cudaStream_t stream) {
  if (stream == nullptr) {
    Gpu& gpu = Current();
    CUstream_st* there = gpu.null_stream.load(std::memory_order_acquire);
    if (there != nullptr) return there;
    CUstream_st* made = NewStream(gpu, false);
    if (!gpu.null_stream.compare_exchange_strong(there, made, std::memory_order_acq_rel)) return there;
    gpu.null_used.store(true, std::memory_order_relaxed);
    return made;
  }
  return stream->alive() && stream->device == current_device ? stream : nullptr;
}

void SynchronizeGpu(Gpu& gpu) {
  std::vector<const Mark*> marks;
  for (CUstream_st* stream : Streams(gpu)) {
    if (stream->alive()) marks.push_back(stream->Record());
  }
  for (const Mark* mark : marks) mark->Wait();
}

bool OfGpu(const std::optional<MemoryTable::Allocation>& a) { return a && a->kind == MemoryTable::Kind::kDevice; }
bool Within(const std::optional<MemoryTable::Allocation>& a, const void* address, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return a && a->begin <= begin && begin + bytes <= a->begin + a->bytes;
}

bool OnGpu(int device, const void* address, size_t bytes) {
  if (bytes == 0) return true;
  const auto found = Cuda().memory.Find(address, bytes);
  return OfGpu(found) && found->device == device && Within(found, address, bytes);
}

namespace {
std::array<std::atomic<int64_t>, 5> calls;
}  // namespace
void CountCall(Call call) { calls[static_cast<size_t>(call)].fetch_add(1, std::memory_order_relaxed); }
int64_t Calls(Call call) { return calls[static_cast<size_t>(call)].load(std::memory_order_relaxed); }

bool Discards() {
  static const bool discards = FromEnvironment("TWOFOLD_EMULATED_DISCARD", 0) != 0;
  return discards;
}

uint64_t OrderSeed() { return Cuda().seed; }

}  // namespace twofold::emulated
