#include "backends/in_memory/resident_memory.h"

#include <unistd.h>

#include <fstream>

namespace twofold::in_memory {

Bytes ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return Bytes(resident * sysconf(_SC_PAGESIZE));
}

std::optional<Address> CountedSource::Reserve(Bytes size) {
  const auto address = MallocSource::Reserve(size);
  if (address) total_.fetch_add(size.value(), std::memory_order_relaxed);
  return address;
}

void CountedSource::Release(Address address, Bytes size) {
  MallocSource::Release(address, size);
  total_.fetch_sub(size.value(), std::memory_order_relaxed);
}

}  // namespace twofold::in_memory
