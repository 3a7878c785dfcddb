// Tensors in use by work that goes on beside the program, kept until the *program* waits for it: when a buffer returns to
// the allocator is then a function of the sequence of host calls, never of timing.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "core/tensor/tensor.h"

namespace twofold {

class Stream;

// Of a group's or a stream's unfinished work, in issue order; calls are numbered from 1. Touched by the rank's thread only.
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
