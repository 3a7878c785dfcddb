// What communication takes of a GPU that computes at the same time.
//
// A library's kernels occupy multiprocessors and move bytes through the device's memory. So operations that run beside
// them take longer (CostModel::Slowdown). A rank's operations are launched ahead of the simulation's clock, before it
// is known when a communication begins and ends. So this follows the program's order: a communication is beside the
// operations launched after it until it has had its time, or until the stream waits for it.
//
// Assumes: communications of all streams follow one another, and each takes its time alone on the network.
// Ignores: that kernels which wait for other ranks occupy multiprocessors, too; that operations slow communication
// down.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/functional/function_ref.h"
#include "core/device/cost_model.h"

namespace twofold {

class Communicating {
 public:
  // `stream` identifies the stream on which it follows the others. Returns a number for Ended.
  uint64_t Began(const void* stream, double seconds, const BesideIt& takes);
  // The compute stream has waited for that communication, and so for those before it on its stream. The time that they
  // had left has passed for the communications of other streams as well.
  void Ended(uint64_t number);
  // The seconds that an operation takes which would take so many alone. `slowdown`: the factor beside a communication.
  double Take(double seconds, absl::FunctionRef<double(const BesideIt&)> slowdown);
  bool none() const { return all_.empty(); }
  double left() const;  // seconds until all have had their time

 private:
  struct One {
    uint64_t number;
    const void* stream;
    double left;  // seconds
    BesideIt takes;
  };
  void Pass(double seconds);
  std::deque<One> all_;
  uint64_t last_ = 0;
};

}  // namespace twofold
