#include "backends/host/sleep.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>

namespace twofold::host {

double SteadyNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Linux bases steady_clock on CLOCK_MONOTONIC, and by default wakes sleepers up to 50 us late (timer slack).
void SleepUntil(double moment, const std::function<void()>& check) {
  constexpr double kSlice = 0.02;
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  while (true) {
    check();
    const double now = SteadyNow();
    if (now >= moment) return;
    const double until = std::min(moment, now + kSlice), whole = std::floor(until);
    const timespec t = {.tv_sec = static_cast<time_t>(whole), .tv_nsec = static_cast<long>((until - whole) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, nullptr);  // a signal may end it early: the loop checks again
  }
}

}  // namespace twofold::host
