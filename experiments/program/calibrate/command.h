// `twofold calibrate [--device=cpu|cuda] [--fabric=in_memory] [--threads=1] [--gpu=0] [--time-algorithms]
// [--out=PROFILE] [--quick]`
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds the command to `app`. It writes the profile, prints results to stdout and progress to stderr, and sets
// `exit_status`: 0 success, 1 a failure at run time, 2 a wrong argument.
void AddCalibrateCommand(const Command& program, int& exit_status);

}  // namespace twofold
