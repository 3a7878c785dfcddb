// Runs the points of a sweep: predictions by a pool of processes, then measurements, one at a time so that they do not
// disturb each other.
//
// Each run has a folder, OUT/POINT/predicted or OUT/POINT/measured-N, with asked.textproto, the whole spec as it was
// asked for, beside the files of `twofold run`; a measurement also has log.txt, what it printed. A run whose folder
// holds the report of that very spec is not run again, unless a measurement has failed or was interrupted.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/program/sweep/points.h"
#include "experiments/program/sweep/results.h"

namespace twofold {

struct SweepRunOptions {
  std::string file;    // the spec's, begins errors
  std::string out;     // the folder, which exists
  int repeats = 1;     // of measurements: all points once, then all again, and so on
  int processes = 0;   // predictions at a time; 0: one for each core
  bool again = false;  // also run what the folder has
};

struct SweepRan {
  int64_t runs = 0;          // predictions and measurements that were run
  int64_t kept = 0;          // of an earlier sweep
  bool interrupted = false;  // some were not run
};

// Fills in the figures of `results` (sweep::ResultsOf). Signals that end runs (backends/host/interrupt.h) end the
// measurement that is running, and what follows is not run. Call it from the main thread. Errors: a folder that cannot
// be written, or no process that predicts.
absl::StatusOr<SweepRan> RunPoints(const sweep::Points& points, const SweepRunOptions& options,
                                   sweep::Results& results);

}  // namespace twofold
