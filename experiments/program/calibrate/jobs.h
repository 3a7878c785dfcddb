// Small training jobs: what kernels take in a step, beside one another, that they do not take alone.
//
// They calibrate; no experiment may be held against their shapes.
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
  spec::Spec spec;   // one rank's, with every default
  std::shared_ptr<const Dataset> data;
};
std::vector<Job> Jobs();

// The job on `ranks` ranks of `threads` threads; each has the batch that the one rank of job.spec has. Without `overlap`
// gradients are reduced after the backward pass.
spec::Spec SpecOf(const Job& job, int ranks, int threads, bool overlap);

// Where a job's steps spend their time: seconds a step; medians over steps, means over ranks.
struct JobTimes {
  double step = 0;                        // of steps that were not traced
  double exposed = 0;                     // of those: the compute stream stood still
  std::map<std::string, double> kernels;  // of the traced ones
  double launches = 0;                    // operations a step
  double communication = 0;               // all collectives of a step together
  double wall = 0;                        // of the whole job, from when the ranks began; 0 where it is simulated
  report::Load load;                      // of the machine meanwhile
  double KernelSeconds() const;
};

// Runs the job on its spec's fabric, which is in_memory or simulated.
absl::StatusOr<JobTimes> RunJob(const Job& job, const spec::Spec& spec);
// From the records of all ranks, of which the last spec.trace.last_steps steps were traced.
JobTimes TimesFrom(const spec::Spec& spec, const std::vector<report::RankRecord>& records);

}  // namespace twofold::calibrate
