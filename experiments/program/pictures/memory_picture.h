// What a rank's allocator held in the traced steps.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// An SVG element: a panel a run on common scales; categories stacked, reserved bytes as a line, the highest moment
// marked. Drawn is the rank that reaches the highest peak; its title says whether a change stands where the device reached it or where
// the host made it. Empty when no run has memory samples.
std::string MemoryPicture(const std::vector<const RunData*>& runs);

}  // namespace twofold::pictures
