// Converts seconds, as users, specs and other processes give them, to std::chrono durations.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace twofold {

// A plain cast overflows on a large, infinite or NaN value. Here anything longer than 1e9 s becomes 1e9 s, which can be
// added to any time point of a clock. Negative values and NaN become zero.
inline std::chrono::nanoseconds DurationOf(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds > 0)) return std::chrono::nanoseconds(0);
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kLongest) * 1e9));
}

}  // namespace twofold
