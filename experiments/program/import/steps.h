// Where the training steps of an imported trace begin and end, on the device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/import/rank_trace.h"

namespace twofold {

struct ImportedSteps {
  std::vector<double> bounds;      // ascending, one more than there are steps: step i is from [i] to [i + 1]
  std::vector<std::string> names;  // of the annotations
  std::vector<std::string> notes;  // how the bounds were found
};

// Annotations called `name`, or `name` and a number ("ProfilerStep#12"), are the steps; with "" those of PyTorch's
// profiler if there are any, else the whole trace is one step.
//
// The host runs ahead of the device, so its annotations tell which work belongs to a step, not when it was done: a step
// begins when the device begins the first work that was launched within its annotation, and ends where the next one
// begins. The last ends when its work and its annotation have ended. Steps without work (the profiler's last one,
// often) are left out. If no launch is recorded, the annotations' own times count.
//
// InvalidArgument, naming the file, if `name` is given and there is no such annotation.
absl::StatusOr<ImportedSteps> StepsOf(const RankTrace& trace, std::string_view name);

}  // namespace twofold
