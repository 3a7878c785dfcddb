// Sleeping until a moment, to some microseconds and without keeping a core busy.
#pragma once

#include <functional>

namespace twofold::host {

double SteadyNow();  // seconds of std::chrono::steady_clock

// Returns when SteadyNow() is `moment` or more. `check` is called before, and every 20 ms while it lasts; it may throw.
void SleepUntil(double moment, const std::function<void()>& check);

}  // namespace twofold::host
