// What the process has in memory beyond what the ranks' allocators took: libraries, stacks, the C++ heap.
#pragma once

#include <map>
#include <mutex>

#include "core/base/units.h"
#include "core/memory/source.h"

namespace twofold::host {

// Resident bytes of this process, from /proc/self/statm; 0 where that does not exist.
Bytes ResidentBytes();

// The segments that all ranks' allocators hold. Any thread may call.
class Segments {
 public:
  void Add(Address address, Bytes size);
  void Remove(Address address);
  // How much of them is resident: pages that were never touched are not.
  Bytes Resident() const;

 private:
  mutable std::mutex mutex_;
  std::map<Address, Bytes> segments_;
};

// malloc'ed memory whose segments are entered in a list shared by all ranks.
class ListedSource : public MallocSource {
 public:
  ListedSource(Segments& segments, Bytes limit) : MallocSource(limit), segments_(segments) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;

 private:
  Segments& segments_;
};

}  // namespace twofold::host
