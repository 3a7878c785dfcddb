#include "kernels/cuda/emulated/device_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "core/base/check.h"

namespace twofold::emulated {
namespace {

constexpr size_t kPage = 2 << 20;  // granularity of a GPU's memory
constexpr size_t kHostPage = 4096;

size_t Rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Returns -1 if there is no key.
int ProtectionKey() {
#ifdef __SANITIZE_ADDRESS__
  return -1;
#else
  // other threads have no access to a new key's pages anyway
  static const int key =
      std::getenv("TWOFOLD_EMULATED_GPUS_WITHIN_REACH") != nullptr ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
#endif
}

#ifdef __SANITIZE_ADDRESS__
void* Map(size_t bytes) {
  void* address = nullptr;
  return posix_memalign(&address, 512, bytes) == 0 ? address : nullptr;
}
void Unmap(void* address, size_t bytes) {
  std::memset(address, 0xff, bytes);
  std::free(address);
}
#else
void* Map(size_t bytes) {
  const size_t mapped = Rounded(bytes, kHostPage);
  void* address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return nullptr;
  if (ProtectionKey() >= 0)
    TWOFOLD_CHECK(pkey_mprotect(address, mapped, PROT_READ | PROT_WRITE, ProtectionKey()) == 0,
                  "pkey_mprotect succeeds");
  return address;
}
void Unmap(void* address, size_t bytes) { munmap(address, Rounded(bytes, kHostPage)); }
#endif

}  // namespace

void ReachDeviceMemory(bool may) {
  if (ProtectionKey() >= 0)
    TWOFOLD_CHECK(pkey_set(ProtectionKey(), may ? 0 : PKEY_DISABLE_ACCESS) == 0, "pkey_set succeeds");
}

void* MemoryTable::Malloc(int device, size_t bytes, size_t capacity) {
  const std::scoped_lock lock(mutex_);
  if (Rounded(bytes, kPage) > capacity || used_[device] > capacity - Rounded(bytes, kPage)) return nullptr;
  void* address = Map(bytes);
  if (address == nullptr) return nullptr;
  ReachDeviceMemory(true);
  std::memset(address, 0xff, bytes);
  ReachDeviceMemory(false);
  used_[device] += Rounded(bytes, kPage);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  allocations_[begin] = {Kind::kDevice, device, begin, bytes};
  return address;
}

void* MemoryTable::HostAlloc(int device, size_t bytes) {
  void* address = nullptr;
  if (posix_memalign(&address, kHostPage, bytes) != 0) return nullptr;
  std::memset(address, 0xff, bytes);
  const std::scoped_lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  allocations_[begin] = {Kind::kHost, device, begin, bytes};
  return address;
}

bool MemoryTable::Free(void* address, Kind kind) {
  const std::scoped_lock lock(mutex_);
  const auto at = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (at == allocations_.end() || at->second.kind != kind) return false;
  const Allocation allocation = at->second;
  allocations_.erase(at);
  switch (kind) {
    case Kind::kDevice:
      used_[allocation.device] -= Rounded(allocation.bytes, kPage);
      Unmap(address, allocation.bytes);
      break;
    case Kind::kHost:
      std::memset(address, 0xff, allocation.bytes);
      std::free(address);
      break;
  }
  return true;
}

size_t MemoryTable::used(int device) {
  const std::scoped_lock lock(mutex_);
  return used_[device];
}

std::optional<MemoryTable::Allocation> MemoryTable::Find(const void* address, size_t bytes) {
  const std::scoped_lock lock(mutex_);
  const auto begin = reinterpret_cast<uintptr_t>(address);
  auto after = allocations_.lower_bound(begin + (bytes == 0 ? 1 : bytes));
  if (after == allocations_.begin()) return std::nullopt;
  const Allocation& a = std::prev(after)->second;
  if (a.begin + a.bytes <= begin) return std::nullopt;
  return a;
}

}  // namespace twofold::emulated
