// Resident memory of the process beyond what the ranks' allocators reserved: libraries, stacks, the C++ heap.
#pragma once

#include <map>
#include <mutex>

#include "core/base/units.h"
#include "core/memory/source.h"

namespace twofold::host {

// Resident bytes of this process, from /proc/self/statm; 0 if that does not exist.
Bytes ResidentBytes();

// The segments held by all ranks' allocators. Thread-safe.
class Segments {
 public:
  void Add(Address address, Bytes size);
  void Remove(Address address);
  // Resident bytes of the segments: pages that were never touched do not count.
  Bytes Resident() const;

 private:
  mutable std::mutex mutex_;
  std::map<Address, Bytes> segments_;
};

// malloc'ed memory that registers its segments in a list shared by all ranks.
class ListedSource : public MallocSource {
 public:
  ListedSource(Segments& segments, Bytes limit) : MallocSource(limit), segments_(segments) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;

 private:
  Segments& segments_;
};

}  // namespace twofold::host
