// The host memory through which a group communicates if its fabric cannot access device memory, and its size.
//
// A group of several ranks holds `bytes` from its first communication that moves data until the group ends, for any
// kind of communication. A batch of more messages than kSlots takes additional memory of one slot per message until the
// program has waited for the batch. So memory use depends only on program order, and a simulated or replayed rank holds
// as much as a real one.
#pragma once

#include <vector>

#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold {

class HostStaging {
 public:
  static constexpr int kSlots = 8;  // a message has at least one slot to itself; a collective uses all of them
  static constexpr Bytes kBytes = MiB(4);

  // Zero: no staging. Otherwise it must be a multiple of kSlots * 512.
  explicit HostStaging(Bytes bytes = Bytes(0)) : bytes_(bytes) {}
  Bytes bytes() const { return bytes_; }
  Bytes slot() const { return bytes_ / kSlots; }

  // Call before `c` is issued, on the rank's own thread. Returns the borrowed staging memory for `c`, or an empty
  // tensor. Memory for `c` alone is added to `workspace`, which must be kept until the program has waited. Throws
  // OutOfMemory.
  Tensor For(const Communication& c, Device& device, std::vector<Tensor>& workspace);

 private:
  const Bytes bytes_;
  Tensor memory_;
};

}  // namespace twofold
