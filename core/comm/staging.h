// The memory of the host through which a group communicates where its fabric cannot reach the device's: how much it holds.
//
// A group of several ranks holds `bytes` from its first communication that moves anything until it ends, whatever it communicates. A
// batch of more messages than that has slots takes a slot for each beside it, until the program has waited for the batch. So it
// follows from the program's order alone, and a rank that is simulated or replayed holds as much as one that runs.
#pragma once

#include <vector>

#include "core/comm/communication.h"
#include "core/device/device.h"

namespace twofold {

class HostStaging {
 public:
  static constexpr int kSlots = 8;  // a message has one or more to itself, a collective all of them
  static constexpr Bytes kBytes = MiB(4);

  // Zero: nothing is staged. Else a multiple of kSlots * 512.
  explicit HostStaging(Bytes bytes = Bytes(0)) : bytes_(bytes) {}
  Bytes bytes() const { return bytes_; }
  Bytes slot() const { return bytes_ / kSlots; }

  // Before `c` is issued, on the rank's own thread: what `c` goes through, borrowed, or an empty tensor. What it alone takes is
  // added to `workspace`, to be kept until the program has waited. Throws OutOfMemory.
  Tensor For(const Communication& c, Device& device, std::vector<Tensor>& workspace);

 private:
  const Bytes bytes_;
  Tensor memory_;
};

}  // namespace twofold
