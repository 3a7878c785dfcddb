// `twofold launch --restarts`: starts a run again that failed because ranks were lost, from its last checkpoint, with
// the ranks that are left (continuation.h).
//
// A rank is lost if its process did not say how the run ended (backends/launch/ending.h): it was killed or hung. Ranks
// that ended because the run failed are started again. A run that failed for another reason (wrong input, out of
// memory, a collective mismatch, an interrupt) would fail again, or is wanted no more, and is not started again.
//
// All attempts write to the run's folder and share its checkpoints. Before a further attempt, the report of the one
// that failed moves to "attempt-<n>" there. The notes of the last report list the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/program/commands.h"
#include "experiments/program/supervisor.h"

namespace twofold {

struct RestartOptions {
  std::string fabric;
  int ranks = 1;        // of the first attempt
  int restarts = 0;     // at most
  int least_ranks = 1;  // with fewer the run is not started again
};

struct Attempt {
  int ranks = 0;
  std::vector<std::string> more_words;  // further arguments of the run command
  std::string endings;                  // the value of kEndingsVariable for its processes
};

// Returns the exit status of the last attempt. `start` runs one and returns when all its processes have ended. What
// happens is told on stderr.
int RunWithRestarts(const RunWords& run, const RestartOptions& options,
                    const std::function<Supervised(const Attempt&)>& start);

}  // namespace twofold
