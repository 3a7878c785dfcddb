// What calibration found, for people.
#pragma once

#include <string>

#include "core/proto/profile.pb.h"
#include "experiments/calibrate/samples.h"

namespace twofold::calibrate {

// A line a kernel: least time, rate at the largest size, spread over rounds.
std::string KernelTableText(const profile::Profile& profile);

// The links, and what they predict for collectives beside what `samples` (of MeasureLinks) show; nothing was fitted to
// those.
std::string LinkTableText(const profile::Profile& profile, const Samples& samples, int ranks);

}  // namespace twofold::calibrate
