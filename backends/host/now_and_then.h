// Runs an action at intervals chosen so that it takes only a small share of the time.
#pragma once

#include <algorithm>
#include <chrono>

namespace twofold::host {

class NowAndThen {
 public:
  using Clock = std::chrono::steady_clock;
  // The first run is a short time after `begin`. If `shared_by` users take turns on one core, the interval grows so
  // that together they spend one twentieth of the time on it.
  explicit NowAndThen(Clock::time_point begin = Clock::now(), int shared_by = 1)
      : shared_by_(shared_by), next_(begin + kLeast) {}

  template <class F>
  void Do(F do_it) {
    const auto begin = Clock::now();
    if (begin < next_) return;
    do_it();
    const auto end = Clock::now();
    next_ = end + std::max<Clock::duration>(kLeast, kShare * shared_by_ * (end - begin));
  }

 private:
  static constexpr std::chrono::milliseconds kLeast{250};
  static constexpr int kShare = 20;

  const int shared_by_;
  Clock::time_point next_;
};

}  // namespace twofold::host
