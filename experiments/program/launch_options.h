// What `twofold launch` may be given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/program/commands.h"

namespace twofold {

inline constexpr double kLaunchGrace = 10;  // seconds

struct LaunchOptions {
  std::optional<int> asked_ranks;
  int ranks = 0;  // as asked for, else of the spec
  std::string fabric, program;
  int nodes = 1, node_rank = -1;
  std::string master;
  bool label = false, print = false, slurm = false;
  std::string time;  // with slurm
  double grace_s = kLaunchGrace;
  std::optional<int> restarts, least_ranks, replacements;
  std::vector<std::string> command;
  std::optional<RunWords> run;  // if the command is a run that can be read here
};

// Whether this command starts the ranks itself, by environment variables, instead of the fabric's own launcher.
bool ByVariables(const LaunchOptions& o);
// The --fabric of the command; "" if it has none.
std::string FabricOfCommand(const LaunchOptions& o);

}  // namespace twofold
