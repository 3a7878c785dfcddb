// The batch script for Slurm that `twofold launch --slurm` prints: those of docs/launching.md and
// docs/elastic_training.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace twofold {

struct SlurmJob {
  int nodes = 1, ranks_per_node = 1;
  int64_t cores = 1;                 // of each rank
  bool gpus = false;                 // one for each rank
  std::string time;                  // the limit, as sbatch takes it; empty: the partition's
  bool by_mpi = false;               // ranks meet by PMIx
  std::vector<std::string> command;  // what each rank runs, from "twofold" on
  std::string out, checkpoints;      // folders of a run that saves checkpoints; empty: the job is not started again
};

// Refuses what is no time limit for sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours and so on.
absl::Status CheckSlurmTime(const std::string& time);

std::string SlurmScript(const SlurmJob& job);

}  // namespace twofold
