// Work: the handle of a communication in flight.
//
// A Work keeps its tensors alive until the *program* waits for it. So the moment at which a buffer returns to the
// allocator depends on the sequence of host calls, never on timing. Waiting for one work of a group also releases the
// tensors of all earlier work of the group (a group's work runs in order). Used only from the rank's own thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/device/device.h"
#include "core/device/held_tensors.h"
#include "core/tensor/tensor.h"

namespace twofold {

class Work {
 public:
  // The interface that a backend implements.
  class State {
   public:
    virtual ~State() = default;
    virtual void Wait() = 0;  // blocks the host; throws PeerLost, CollectiveMismatch, TimedOut, ...
    // Later work of `s` starts after this work; throws like Wait if `s` is the host
    virtual void WaitOn(Stream& s) = 0;
    virtual bool Test() = 0;  // done (or failed: Wait will throw)?
    // Blocks until at least one of `states` is done and returns its index. All states belong to one fabric.
    virtual size_t WaitAny(std::span<State* const> states) = 0;
    virtual int source() const { return -1; }  // of a finished Recv: the sender's rank
  };

  Work() = default;  // done
  Work(std::shared_ptr<State> state, std::shared_ptr<HeldTensors> held, uint64_t sequence)
      : state_(std::move(state)), held_(std::move(held)), sequence_(sequence) {}

  void Wait() {
    if (state_ == nullptr) return;
    state_->Wait();
    held_->ReleaseUpTo(sequence_);
  }
  // Orders `stream` after this work. Releases the tensors only if `stream` is the compute stream, because memory is
  // reused in the order of its operations. A wait by another stream keeps them.
  void WaitOn(Stream& stream) {
    if (state_ == nullptr) return;
    state_->WaitOn(stream);
    if (&stream == held_->compute()) held_->ReleaseUpTo(sequence_);
  }
  bool Test() const { return state_ == nullptr || state_->Test(); }
  int source() const { return state_ == nullptr ? -1 : state_->source(); }

  // Index of a work that is done. Blocks until there is one. Does not release its tensors: call Wait on it.
  static size_t WaitAny(std::span<const Work> works);

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<HeldTensors> held_;
  uint64_t sequence_ = 0;
};

}  // namespace twofold
