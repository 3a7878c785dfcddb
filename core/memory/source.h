// Where a caching allocator gets its segments from: malloc, cudaMalloc, or addresses of a memory that does not exist.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/units.h"

namespace twofold {

using Address = uint64_t;

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // A segment of `size` bytes, aligned to 4096; nullopt when there is no room.
  virtual std::optional<Address> Reserve(Bytes size) = 0;
  virtual void Release(Address address, Bytes size) = 0;
  // Whether the host may read and write at the addresses.
  virtual bool host_accessible() const = 0;
};

// Host memory. `limit` bounds what is reserved at one time; zero: no bound but the machine's.
class MallocSource : public MemorySource {
 public:
  explicit MallocSource(Bytes limit = Bytes(0)) : limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return true; }

 private:
  Bytes limit_, reserved_;
};

// Addresses of a device of `limit` bytes (zero: unbounded) that hold no data: the simulated memory. Addresses are never used twice.
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
