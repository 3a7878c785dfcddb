// `twofold calibrate [--device=cpu|cuda] [--fabric=in_memory] [--threads=1] [--gpu=0] [--time-algorithms] [--out=PROFILE] [--quick]`
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds the command to `app`. When it runs it writes the profile, prints what was found to stdout and progress to
// stderr, and sets `exit_status`: 0 fine, 1 a failure at run time, 2 an argument that is wrong.
void AddCalibrateCommand(const Command& program, int& exit_status);

}  // namespace twofold
