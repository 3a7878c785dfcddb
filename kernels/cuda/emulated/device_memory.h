// The allocations of cudaMalloc and cudaHostAlloc, and the access of threads to them. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace twofold::emulated {

// Sets whether the calling thread may access GPU memory from now on. Has no effect if the processor has no protection
// keys, or under the address sanitizer.
void ReachDeviceMemory(bool may);

class MemoryTable {
 public:
  enum class Kind { kDevice, kHost };
  struct Allocation {
    Kind kind;
    int device;
    uintptr_t begin;
    size_t bytes;
  };

  // Returns null if a GPU of `capacity` bytes has no room. The memory is filled with 0xff bytes.
  void* Malloc(int device, size_t bytes, size_t capacity);
  void* HostAlloc(int device, size_t bytes);
  // False if no allocation of this kind begins there.
  bool Free(void* address, Kind kind);
  size_t used(int device);

  // The allocation that overlaps [address, address + bytes), if any.
  std::optional<Allocation> Find(const void* address, size_t bytes);

 private:
  std::mutex mutex_;
  std::map<uintptr_t, Allocation> allocations_;  // by start address
  std::map<int, size_t> used_;
};

}  // namespace twofold::emulated
