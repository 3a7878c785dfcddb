// From training jobs, measured and predicted, fits what a prediction needs besides kernels and links.
//
// Each figure is a median over jobs and rounds, fitted in this order: a kernel's factors (its time in the jobs over its
// time alone; one for all jobs in which its calls are about as long); host time between kernels (the rest of a step's
// time, per operation); waiting (idle time of ranks beyond the links' time, over their computing time, from jobs that
// do not overlap); core_share (from how much jobs gain by overlapping). The interval is the range, from the 10th to the
// 90th percentile as everywhere in calibration, of measured steps relative to predictions. Each job is predicted with a
// fit that leaves out its own measurements, except for kernels that no other job has.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/profile.pb.h"
#include "experiments/program/calibrate/jobs.h"

namespace twofold::calibrate {

struct JobRun {
  size_t job;    // number in the list of jobs
  bool overlap;  // gradients are reduced during the backward pass
  int round;     // runs of one round ran one after the other
  JobTimes measured;
};

// The simulator's prediction of a job if the profile has this training; null: from kernels and links alone.
using PredictJob = std::function<absl::StatusOr<JobTimes>(size_t job, bool overlap, const profile::Training* training)>;

// `runs` have `ranks` ranks each; at least one run of some job is without overlap. Sets all fields except `jobs`.
absl::StatusOr<profile::Training> FitTraining(int ranks, const std::vector<JobRun>& runs, const PredictJob& predict);

}  // namespace twofold::calibrate
