// All legal layouts of a plan as a table, for other programs and for the page of `twofold report`.
#pragma once

#include <string>

#include "experiments/program/plan/search.h"

namespace twofold::plan {

// A line for each legal layout, the simulated ones first, by time, then by the lower bound of the time:
//   layout          as `twofold plan` prints it
//   tp ... offload  its choices
//   fate            does not fit, slower (than the best, by its lower bound), open (the budget ended) or simulated
//   least_seconds, least_bytes    lower bounds of the step time and of a rank's memory
//   seconds, low, high, bytes, tokens_per_second, mfu, bubble, exposed_seconds    simulated; else empty
//   extended        whether these are extended from steps of fewer micro-batches (fewer_micro_batches.h); else empty
//   folding_adds    what folding adds to them at most, as a share (report.proto); else empty
std::string LayoutsCsv(const Plan& plan);

}  // namespace twofold::plan
