// Where a caching allocator gets its segments: malloc, cudaMalloc, or the addresses of simulated memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

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

// Has a limit that its allocator may exceed: a request beyond it is refused once, so that the allocator gives its
// cached segments back, and granted when it comes again. So an allocator whose rank fits does the same as with a
// bounded source.
class LenientSource : public MemorySource {
 public:
  // `own` is not bounded. `limit`: bytes reserved at a time; zero: none.
  LenientSource(std::unique_ptr<MemorySource> own, Bytes limit) : own_(std::move(own)), limit_(limit) {}
  std::optional<Address> Reserve(Bytes size) override;
  void Release(Address address, Bytes size) override;
  bool host_accessible() const override { return own_->host_accessible(); }

 private:
  const std::unique_ptr<MemorySource> own_;
  const Bytes limit_;
  Bytes reserved_;
  bool refused_ = false;  // the last request
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
