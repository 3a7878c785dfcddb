// What an operation is expected to take. Implementations state "assumes / ignores / calibrated from".
#pragma once

#include <optional>

#include "core/base/units.h"
#include "core/device/ops.h"

namespace twofold {

struct Estimate {
  Seconds seconds, low, high;
  bool extrapolated = false;  // outside what calibration has seen
  std::optional<Seconds> launch = std::nullopt;  // what the host takes to launch it; absent: as long as any launch
};

// Shares of an expected time, at most 1 and at least 1.
struct Range {
  double low = 1, high = 1;
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Estimate Time(const ops::Op& op) = 0;
  // Whether what one kernel's estimates are off by tells nothing of another kernel's.
  virtual bool independent() const { return false; }
  // What all of a step has in common, beyond the estimates' own intervals: how fast the machine is on that day.
  virtual Range common() const { return {}; }
};

}  // namespace twofold
