// Time in which this process runs. What it spends stopped (by a debugger, a job scheduler's suspension, Ctrl-Z) does not count, so that it
// misses nobody for a silence that was its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace twofold::watch {

class RunningClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kMostBetween{1};  // two looks of a process that runs

  explicit RunningClock(Time steady) : looked_(steady), now_(steady) {}
  Time now() const { return now_; }  // as of the last look
  void Look(Time steady) {
    now_ += std::min<Time::duration>(steady - std::exchange(looked_, steady), kMostBetween);
  }

 private:
  Time looked_, now_;
};

}  // namespace twofold::watch
