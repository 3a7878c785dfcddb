// All that `twofold sweep` does: from what is asked to the points' figures, and the files of the results.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "experiments/program/sweep/points.h"
#include "experiments/program/sweep/results.h"

namespace twofold {

inline constexpr int kSweepRepeats = 3;  // of measurements, by default

struct SweepAsked {
  sweep::Asked points;              // `repeats` is filled in from below
  std::optional<std::string> text;  // of the spec, where it is no file; points.file begins errors then
  std::optional<int> repeats;
  std::string out;  // folder; "": runs/<name>-sweep
  int processes = 0;
  bool again = false;
};

struct SweepTold {
  sweep::Results results;
  std::string text, out;  // the table; the folder
  std::vector<std::string> notes;
  absl::Status written;      // whether the results' files could be
  bool interrupted = false;  // some points were not run
};

// Only INTERNAL errors are not the input's. Measurements need the main thread (sweep_runs.h).
absl::StatusOr<SweepTold> RunSweep(SweepAsked asked);

}  // namespace twofold
