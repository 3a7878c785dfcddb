// `twofold report DIR [DIR ...] [--out=FILE] [--trace=pftrace]`
#pragma once

#include "experiments/program/cli/command_line.h"

namespace twofold {

// Adds the command to `program`. It writes report.html, of all folders given and into the last one, with timeline.svg,
// memory.svg and schedule.svg beside it, and prints their paths to stdout. It sets `exit_status`: 0 success, 1 a file
// could not be written, 2 a folder that is not a run's.
void AddReportCommand(const Command& program, int& exit_status);

}  // namespace twofold
