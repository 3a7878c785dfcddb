// The report of a workload that ran on a simulated cluster.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/simulated/workload_run.h"
#include "core/run/workload.h"
#include "experiments/program/measured_run.h"

namespace twofold {

struct ReplayedSteps {
  std::vector<double> seconds;  // of the slowest rank, step by step; without marks one step, which is all
  bool marked = false;
  double all = 0;  // until the last rank is done
};
ReplayedSteps StepsOf(const Workload& workload, const WorkloadRun& run);

// A run as `twofold report` and `twofold compare` read it: time lines of the first `traced` ranks, kernels, collectives
// and steps, memory unknown. `of`: where the workload is from.
absl::StatusOr<MeasuredRun> ReplayedRun(const Workload& workload, const WorkloadRun& run, const std::string& name,
                                        const std::string& of, int traced);

}  // namespace twofold
