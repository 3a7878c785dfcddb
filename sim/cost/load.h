// How a machine's load while it was calibrated widens intervals.
#pragma once

#include <string>

#include "core/device/cost_model.h"
#include "core/proto/profile.pb.h"

namespace twofold {

// `known`: between which shares of the predicted time a run lies on a machine like the one that was calibrated. Other work held up `taken`
// of that calibration, `kept` of what is left of it, and a fixed kernel's time went from fixed_low to fixed_high of its median. Then
// a run lies, on a machine that is anything from idle to as loaded as it was, within
//   (1 - kept) * min(low, fixed_low)   where all that can have held up calibration did, and the run has the machine to itself, and
//   max(high, fixed_high) / (1 - taken)   where nothing held up what was kept, and the run finds the machine as it was on the whole.
// Nothing in it was fitted. A profile that does not know its load widens nothing.
Range Widened(const Range& known, const profile::Load& load);

// "; while it was calibrated other work held it up for up to 43 % of the time (12 % of what was kept; 31 measurements were made
// again), for which intervals reach from 0.88 to 1.75 of the time at least"; "" of a load that is not known.
std::string DescribeLoad(const profile::Profile& profile);

}  // namespace twofold
