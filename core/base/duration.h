// Seconds, as users, specs and other processes say them, in what clocks count in.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace twofold {

// A plain cast overflows where a number is large, infinite or none (NaN). Here what is longer than 1e9 s counts as that long, which can be
// added to any moment of a clock; what is below zero, or no number, counts as no time.
inline std::chrono::nanoseconds DurationOf(double seconds) {
  constexpr double kLongest = 1e9;
  if (!(seconds > 0)) return std::chrono::nanoseconds(0);
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kLongest) * 1e9));
}

}  // namespace twofold
