// Copies between a device's memory and its host's, in order, on a stream of their own.
//
// A copy starts when all that was launched on the compute stream before it is over. So what it reads is there, and its target
// may be memory that the compute stream has done with. Its tensors are kept until the *program* has the compute stream, or
// the host, wait for it or for a later one of the same stream, as a Work keeps those of a communication.
//
// Costs: bytes / rate of the host's link + its least time, each way apart (core/proto/cluster.proto).
// One rank's; used from its thread.
#pragma once

#include <memory>
#include <string_view>

#include "core/device/device.h"
#include "core/device/held_tensors.h"

namespace twofold {

class Transfer {
 public:
  Transfer() = default;  // done
  Transfer(Event event, std::shared_ptr<HeldTensors> held, uint64_t sequence)
      : event_(std::move(event)), held_(std::move(held)), sequence_(sequence) {}

  void Wait();                  // blocks the host
  void WaitOn(Stream& stream);  // what is launched on `stream` from now on starts after it
  const Event& event() const { return event_; }

 private:
  Event event_;
  std::shared_ptr<HeldTensors> held_;
  uint64_t sequence_ = 0;
};

class TransferStream {
 public:
  // `name` is what the trace calls it. The device must outlive it.
  TransferStream(Device& device, std::string_view name);

  // Of equal types and numbers of elements: one lies in the device's memory, the other in the host's.
  Transfer Copy(const Tensor& from, const Tensor& to);
  // The next copies start after `transfer`, one of another stream, too.
  void After(const Transfer& transfer) { stream_->WaitFor(transfer.event()); }

 private:
  Device& device_;
  const std::shared_ptr<HeldTensors> held_;
  const std::unique_ptr<Stream> stream_;  // done with before what is held is let go
};

}  // namespace twofold
