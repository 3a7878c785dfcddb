// What a cost model says of an operation: its expected time, how certain that is, and where it comes from.
#pragma once

#include <algorithm>
#include <optional>

#include "core/base/units.h"

namespace twofold {

// Where an expected time comes from, the most certain first.
enum class Source {
  kCalibrated,    // calibration measured this kernel at this very size
  kTable,         // interpolated between the sizes that calibration measured
  kLaw,           // a law whose constants were fitted to measurements of such types and sizes
  kDataSheet,     // the device's peaks, bandwidth and assumed efficiencies
  kExtrapolated,  // measurements of other sizes, types or kernels
};

struct Estimate {
  Seconds seconds, low, high;
  bool extrapolated = false;                     // outside the range that calibration measured on this machine
  std::optional<Seconds> launch = std::nullopt;  // host time to launch it; absent: the default launch time
  Source source = Source::kDataSheet;
};

// Factors of an expected time. low is at most 1, high is at least 1.
struct Range {
  double low = 1, high = 1;
};

// The source of the sum of two estimates: that of the less certain one, if both take time.
inline Source SourceOfSum(const Estimate& a, const Estimate& b) {
  if (a.seconds == Seconds(0)) return b.source;
  return b.seconds == Seconds(0) ? a.source : std::max(a.source, b.source);
}

}  // namespace twofold
