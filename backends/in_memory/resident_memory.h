// What the process has in memory beyond what the ranks' allocators took: libraries, stacks, the C++ heap.
#pragma once

#include <atomic>

#include "core/base/units.h"
#include "core/memory/source.h"

namespace twofold::in_memory {

// Resident bytes of this process, from /proc/self/statm; 0 where that does not exist.
Bytes ResidentBytes();

// malloc'ed memory that adds what is reserved to a total over all ranks, which any thread may read.
class CountedSource : public MallocSource {
 public:
  explicit CountedSource(std::atomic<int64_t>& total) : total_(total) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;

 private:
  std::atomic<int64_t>& total_;
};

}  // namespace twofold::in_memory
