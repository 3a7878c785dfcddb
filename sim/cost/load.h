// How the load on a machine during calibration widens intervals.
#pragma once

#include <string>

#include "core/device/cost_model.h"
#include "core/proto/profile.pb.h"

namespace twofold {

// `known`: the interval of a run's time, as shares of the predicted time, on a machine like the calibrated one. During
// calibration, other work took up the share `taken` of the time, and the share `kept` of the measurements that were
// kept; the time of a fixed kernel varied from fixed_low to fixed_high of its median. Then, on a machine with any load
// from idle to that of the calibration, a run lies within
//   (1 - kept) * min(low, fixed_low)     if all possible load slowed calibration, and the run has an idle machine, and
//   max(high, fixed_high) / (1 - taken)  if no load affected what was kept, and the run meets the average load.
// Nothing in this formula was fitted. A profile without load figures widens nothing.
Range Widened(const Range& known, const profile::Load& load);

// "; other work delayed the calibration by up to 43 % of the time (12 % in the measurements that were kept; 31
// measurements were repeated), so intervals reach at least from 0.88 to 1.75 times the estimate"; "" if the load is
// not known.
std::string DescribeLoad(const profile::Profile& profile);

}  // namespace twofold
