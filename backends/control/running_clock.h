// A clock that counts only time in which this process runs. Time while it is stopped (by a debugger, a job scheduler's
// suspension, Ctrl-Z) does not count, so that a process does not mistake its own pause for the silence of other ranks.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace twofold::control {

class RunningClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kMostBetween{1};  // between two looks, while the process runs

  explicit RunningClock(Time steady) : looked_(steady), now_(steady) {}
  Time now() const { return now_; }  // as of the last look
  void Look(Time steady) { now_ += std::min<Time::duration>(steady - std::exchange(looked_, steady), kMostBetween); }

 private:
  Time looked_, now_;
};

}  // namespace twofold::control
