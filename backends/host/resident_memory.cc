#include "backends/host/resident_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace twofold::host {
namespace {

int64_t PageSize() { return sysconf(_SC_PAGESIZE); }

int64_t ResidentPages(Address address, Bytes size) {
  const auto page = static_cast<Address>(PageSize());
  const Address begin = address / page * page;
  const Address end = (address + static_cast<Address>(size.value()) + page - 1) / page * page;
  std::vector<unsigned char> pages((end - begin) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()) != 0) return 0;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; });
}

}  // namespace

Bytes ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return Bytes(resident * PageSize());
}

void Segments::Add(Address address, Bytes size) {
  std::lock_guard lock(mutex_);
  segments_.emplace(address, size);
}

void Segments::Remove(Address address) {
  std::lock_guard lock(mutex_);
  segments_.erase(address);
}

Bytes Segments::Resident() const {
  std::lock_guard lock(mutex_);
  int64_t pages = 0;
  for (const auto& [address, size] : segments_) pages += ResidentPages(address, size);
  return Bytes(pages * PageSize());
}

std::optional<Address> ListedSource::Reserve(Bytes size) {
  const auto address = MallocSource::Reserve(size);
  if (address) segments_.Add(*address, size);
  return address;
}

void ListedSource::Release(Address address, Bytes size) {
  segments_.Remove(address);  // first: freed memory must not be inspected
  MallocSource::Release(address, size);
}

}  // namespace twofold::host
