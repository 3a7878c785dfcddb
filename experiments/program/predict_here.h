// One prediction: what `twofold run --fabric=simulated` reports, without its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `spec` is resolved (experiments/program/spec/spec.h), on fabric simulated; errors begin with `file`. Runs that are
// predicted to fail have a report that says so. Forks, so that a process of several threads must use a Predictor.
absl::StatusOr<report::Report> PredictHere(spec::Spec spec, const std::string& file);

// Likewise, of one training whose steps have these numbers of micro-batches each, at most as many as the spec says;
// none: as the spec says, and one report. Else a report for each step. Its median, interval, exposed communication,
// bubble, tokens per second and MFU are those of the step; the other fields are those of the whole run. If the run
// fails, a single report, that says why.
absl::StatusOr<std::vector<report::Report>> PredictSteps(spec::Spec spec, const std::string& file,
                                                         const std::vector<int64_t>& micro_batches);

}  // namespace twofold
