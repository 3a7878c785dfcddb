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
#include <utility>

#include "absl/functional/function_ref.h"
#include "core/device/cost_model.h"

namespace twofold {

class Communicating {
 public:
  // `stream` identifies the stream on which it follows the others. Returns a number for Ended. `brief`: ranks that this
  // one stands for may do without it (Device::Briefly). So it follows none of the others, which are as they would be
  // without it, and only adds to what they do.
  uint64_t Began(const void* stream, double seconds, const BesideIt& takes, bool brief = false);
  // The compute stream has waited for that communication, and so for those before it on its stream. The time that they
  // had left has passed for the communications of other streams as well.
  void Ended(uint64_t number);
  // The seconds that an operation takes which would take so many alone. `slowdown`: the factor beside a communication.
  double Take(double seconds, absl::FunctionRef<double(const BesideIt&)> slowdown);
  // Seconds by which operations have taken longer because of brief ones since this was asked last.
  double SlowedBriefly() { return std::exchange(slowed_briefly_, 0); }
  bool none() const { return all_.empty() && brief_.empty(); }
  double left() const;  // seconds until all have had their time

 private:
  struct One {
    uint64_t number;
    const void* stream;
    double left;  // seconds
    BesideIt takes;
  };
  void Pass(double seconds);
  using Slowdown = absl::FunctionRef<double(const BesideIt&)>;
  static double Take(double seconds, Slowdown slowdown, std::deque<One>& of);
  std::deque<One> all_, brief_;
  uint64_t last_ = 0;
  double slowed_briefly_ = 0;
};

}  // namespace twofold
