// From training jobs, measured and predicted, to what a prediction must know beside kernels and links.
//
// In this order, each a median over jobs and rounds: a kernel's factor, its time in the jobs over what it takes alone; host
// time between kernels, the rest of a step's time over its operations; waiting, what ranks stand still beyond the links'
// time, over their computing time (from jobs that do not overlap); core_share, from how much jobs gain by overlapping. The
// interval is how far measured steps lie (10th to 90th percentile, as of all that is measured here) from predictions of jobs
// whose own measurements were left out of the fit (but for kernels that no other job has).
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"
#include "experiments/program/calibrate/jobs.h"

namespace twofold::calibrate {

struct JobRun {
  size_t job;    // number in the list of jobs
  bool overlap;  // gradients are reduced beside the backward pass
  int round;     // runs of one round were made one after the other
  JobTimes measured;
};

// What the simulator says of a job when the profile has this training; null: kernels and links alone.
using PredictJob = std::function<absl::StatusOr<JobTimes>(size_t job, bool overlap, const profile::Training* training)>;

// `runs` of `ranks` ranks each: one or more without overlap of some job. Sets all but `jobs`.
absl::StatusOr<profile::Training> FitTraining(int ranks, const std::vector<JobRun>& runs, const PredictJob& predict);

}  // namespace twofold::calibrate
