// The expected time of an operation. Implementations state "assumes / ignores / calibrated from".
#pragma once

#include "core/device/estimate.h"
#include "core/device/ops.h"

namespace twofold {

// What a communication takes of a device while it runs.
struct BesideIt {
  double multiprocessors = 0;
  double bytes_per_second = 0;  // of the device's memory
};

class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual Estimate Time(const ops::Op& op) = 0;
  // Of a product whose `parts` run side by side: the last wave of one part runs beside the first one of the next, so
  // each takes its share of what the whole would take. By default as alone.
  virtual Estimate TimeOfPart(const ops::MatMul& product) { return Time(product); }
  // How many times as long the operation takes beside a communication; at least 1.
  virtual double Slowdown(const ops::Op& /*op*/, const BesideIt& /*takes*/) { return 1; }
  // True if the estimation errors of one kernel are independent of those of another kernel.
  virtual bool independent() const { return false; }
  // A factor common to a whole step, in addition to the estimates' own intervals: the speed of the machine on that day.
  virtual Range common() const { return {}; }
};

}  // namespace twofold
