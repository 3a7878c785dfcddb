// Where a caching allocator gets its segments: malloc, cudaMalloc, or the addresses of simulated memory.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/units.h"

namespace twofold {

using Address = uint64_t;

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // A segment of `size` bytes, aligned to 4096 bytes. nullopt if there is no room.
  virtual std::optional<Address> Reserve(Bytes size) = 0;
  virtual void Release(Address address, Bytes size) = 0;
  // Whether the host may read and write at the addresses.
  virtual bool host_accessible() const = 0;
};

// Host memory. `limit` bounds the bytes reserved at a time. Zero: limited only by the machine.
class MallocSource : public MemorySource {
 public:
  explicit MallocSource(Bytes limit = Bytes(0)) : limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return true; }

 private:
  Bytes limit_, reserved_;
};

// Simulated memory: addresses without data, of a device with `limit` bytes (zero: unbounded). Addresses are never
// reused.
class VirtualSource : public MemorySource {
 public:
  explicit VirtualSource(Bytes limit = Bytes(0)) : limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return false; }

 private:
  Bytes limit_, reserved_;
  Address next_ = 1 << 20;
};

}  // namespace twofold
