// Keeps the tensors of asynchronous work until the *program* waits for that work. So the moment at which a buffer
// returns to the allocator depends on the sequence of host calls, never on timing.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "core/tensor/tensor.h"

namespace twofold {

class Stream;

// The tensors of the unfinished work of a group or stream, in issue order. Calls are numbered from 1. Used only from
// the rank's thread.
class HeldTensors {
 public:
  explicit HeldTensors(const Stream* compute) : compute_(compute) {}
  uint64_t NextCall() { return ++last_; }
  void Hold(Tensor tensor) { held_.emplace_back(last_, std::move(tensor)); }  // for the latest call
  void ReleaseUpTo(uint64_t sequence) {
    while (!held_.empty() && held_.front().first <= sequence) held_.pop_front();
  }
  const Stream* compute() const { return compute_; }

 private:
  const Stream* compute_;
  uint64_t last_ = 0;
  std::deque<std::pair<uint64_t, Tensor>> held_;
};

}  // namespace twofold
