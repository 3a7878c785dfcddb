// The memory of a rank's allocator in the traced steps.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// An SVG element: one panel per run, on common scales. Categories are stacked, reserved bytes are a line, the peak is
// marked. It shows the rank with the highest peak. Its title says whether changes are placed at the device's or at the
// host's time. Empty if no run has memory samples.
std::string MemoryPicture(const std::vector<const RunData*>& runs);

}  // namespace twofold::pictures
