// Something that is worth a little of the time, done as often as that allows.
#pragma once

#include <algorithm>
#include <chrono>

namespace twofold::host {

class NowAndThen {
 public:
  using Clock = std::chrono::steady_clock;
  // The first time is a moment after `begin`. Of `shared_by` that take turns on one core, each does it seldom enough for all of them to
  // spend a twentieth of the time on it.
  explicit NowAndThen(Clock::time_point begin = Clock::now(), int shared_by = 1) : shared_by_(shared_by), next_(begin + kLeast) {}

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
