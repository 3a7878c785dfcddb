// What an operation is expected to take. Implementations state "assumes / ignores / calibrated from".
#pragma once

#include "core/base/units.h"
#include "core/device/ops.h"

namespace twofold {

struct Estimate {
  Seconds seconds, low, high;
  bool extrapolated = false;  // outside what calibration has seen
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Estimate Time(const ops::Op& op) = 0;
};

}  // namespace twofold
