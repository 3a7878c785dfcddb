// The memory of one machine, from which all of its simulated ranks reserve.
//
// Assumes: a rank's highest reservation is never given back. Unlike a device, the machine does not refuse a request so
// that the allocator can free its cache and retry; it ends the job. So after one request that does not fit, all are
// refused.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/memory/source.h"

namespace twofold {

class SharedMemory {
 public:
  explicit SharedMemory(Bytes size) : size_(size) {}  // zero: not bounded
  bool Take(Bytes bytes) {
    exhausted_ = exhausted_ || (size_.value() > 0 && taken_ + bytes > size_);
    if (!exhausted_) taken_ += bytes;
    return !exhausted_;
  }

 private:
  const Bytes size_;
  Bytes taken_;
  bool exhausted_ = false;
};

// One rank's source: reserves from `own` and charges `shared`, which must outlive it, for all the ranks that this one
// stands for.
class SharedSource : public MemorySource {
 public:
  SharedSource(std::unique_ptr<MemorySource> own, SharedMemory& shared, int stands_for)
      : own_(std::move(own)), shared_(shared), stands_for_(stands_for) {}

  std::optional<Address> Reserve(Bytes size) override {
    const std::optional<Address> address = own_->Reserve(size);
    if (!address) return address;
    const Bytes more = std::max(reserved_ + size - highest_, Bytes(0));
    if (!shared_.Take(more * stands_for_)) {
      own_->Release(*address, size);
      return std::nullopt;
    }
    reserved_ += size, highest_ += more;
    return address;
  }
  void Release(Address address, Bytes size) override {
    own_->Release(address, size);
    reserved_ -= size;
  }
  bool host_accessible() const override { return own_->host_accessible(); }

 private:
  const std::unique_ptr<MemorySource> own_;
  SharedMemory& shared_;
  const int stands_for_;
  Bytes reserved_, highest_;
};

}  // namespace twofold
