// What cudaMalloc and cudaHostAlloc gave out, and who can reach it. Safe from all threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace twofold::emulated {

// Whether the calling thread may touch GPUs' memory, from now on. Nothing changes where the processor has no protection keys, and
// under the address sanitizer.
void ReachDeviceMemory(bool may);

class MemoryTable {
 public:
  enum class Kind { kDevice, kHost, kRegistered };
  struct Allocation {
    Kind kind;
    int device;
    uintptr_t begin;
    size_t bytes;
  };

  // Null where a GPU of `capacity` bytes has no room. The memory holds 0xff bytes.
  void* Malloc(int device, size_t bytes, size_t capacity);
  void* HostAlloc(int device, size_t bytes);
  bool Register(int device, void* address, size_t bytes);  // false: some of it is known already
  // False: nothing of this kind begins there.
  bool Free(void* address, Kind kind);
  size_t used(int device);

  // The allocation that [address, address + bytes) touches, where there is one.
  std::optional<Allocation> Find(const void* address, size_t bytes);

 private:
  std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by begin
  std::map<int, size_t> used_;
};

}  // namespace twofold::emulated
