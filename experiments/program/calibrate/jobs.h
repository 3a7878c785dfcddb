// Small training jobs. They show how long kernels take beside one another in a step, compared with running alone.
// Tensors of the first ones fit into the caches of a core, those of the others (large) do not.
//
// They are for calibration: no experiment may test predictions on their shapes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/dataset.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::calibrate {

struct Job {
  std::string name;  // says what is trained
  spec::Spec spec;   // for one rank, with every default filled in
  std::shared_ptr<const Dataset> data;
  bool large = false;  // slower, so that it is run in every second part of a calibration, and not in a quick one
};
std::vector<Job> Jobs();

// The job on `ranks` ranks of `threads` threads; each rank has the batch of the single rank of job.spec. Without
// `overlap`, gradients are reduced after the backward pass.
spec::Spec SpecOf(const Job& job, int ranks, int threads, bool overlap);

// Where a job's steps spend their time, in seconds per step; medians over steps, means over ranks.
struct JobTimes {
  double step = 0;     // of steps that were not traced
  double exposed = 0;  // part of that: the compute stream was stalled
  struct Kernel {
    double seconds = 0, calls = 0;
  };
  std::map<std::string, Kernel> kernels;  // of the traced steps
  double launches = 0;                    // operations per step
  double communication = 0;               // all collectives of a step together
  double wall = 0;                        // of the whole job, from when the ranks began; 0 if simulated
  report::Load load;                      // of the machine during the job
  double KernelSeconds() const;
};

// Runs the job on its spec's fabric, which must be in_memory or simulated.
absl::StatusOr<JobTimes> RunJob(const Job& job, const spec::Spec& spec);
// From the records of all ranks; the last spec.trace.last_steps steps were traced.
JobTimes TimesFrom(const spec::Spec& spec, const std::vector<report::RankRecord>& records);

}  // namespace twofold::calibrate
