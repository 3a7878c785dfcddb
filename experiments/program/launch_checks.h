// What `twofold launch` refuses before it starts anything.
#pragma once

#include "absl/status/status.h"
#include "experiments/program/launch_options.h"

namespace twofold {

// Also fills in `ranks`, what Slurm says (node_rank, master), and `run`.
absl::Status CheckLaunch(LaunchOptions& o);

}  // namespace twofold
