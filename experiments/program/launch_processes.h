// The processes that `twofold launch` starts, for valid options.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/launch_options.h"
#include "experiments/program/supervisor.h"

namespace twofold {

// The words of the fabric's own launcher, which starts the ranks.
std::vector<std::string> LauncherWords(const LaunchOptions& o);
// The processes that this one supervises: all ranks, with the environment variables by which they find each other, or a
// launcher that starts them.
std::vector<RankProcess> LaunchedProcesses(const LaunchOptions& o);
// A script for Slurm in which srun starts the ranks.
std::string LaunchScript(const LaunchOptions& o);

}  // namespace twofold
