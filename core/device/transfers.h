// Ordered copies between device memory and host memory, on a stream of their own.
//
// A copy starts when all earlier work on the compute stream is done. So its source is ready, and its target may be
// memory that the compute stream no longer uses. Its tensors are kept until the *program* makes the compute stream or
// the host wait for it, or for a later copy of the same stream. (A Work keeps the tensors of a communication in the
// same way.)
//
// Cost: bytes / rate of the host link + its minimum time, separately for each direction (core/proto/cluster.proto).
// Belongs to one rank and is used from its thread.
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
  void WaitOn(Stream& stream);  // work launched on `stream` from now on starts after it
  const Event& event() const { return event_; }

 private:
  Event event_;
  std::shared_ptr<HeldTensors> held_;
  uint64_t sequence_ = 0;
};

class TransferStream {
 public:
  // The trace shows `name`. The device must outlive this object.
  TransferStream(Device& device, std::string_view name);

  // The tensors must have the same type and number of elements. One is in device memory, the other in host memory.
  Transfer Copy(const Tensor& from, const Tensor& to);
  // The next copies start after `transfer`, which may be on another stream.
  void After(const Transfer& transfer) { stream_->WaitFor(transfer.event()); }

 private:
  Device& device_;
  const std::shared_ptr<HeldTensors> held_;
  const std::unique_ptr<Stream> stream_;  // destroyed before `held_` releases its tensors
};

}  // namespace twofold
