// Sleeps until a given time, accurate to some microseconds and without keeping a core busy.
#pragma once

#include <functional>

namespace twofold::host {

double SteadyNow();  // seconds of std::chrono::steady_clock

// Returns when SteadyNow() is at least `moment`. Calls `check` before sleeping and every 20 ms meanwhile; it may throw.
void SleepUntil(double moment, const std::function<void()>& check);

}  // namespace twofold::host
