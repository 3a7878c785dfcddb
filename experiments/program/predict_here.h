// One prediction: what `twofold run --fabric=simulated` reports, without its files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `spec` is resolved (experiments/program/spec/spec.h), on fabric simulated; errors begin with `file`. Runs that are
// predicted to fail have a report that says so. Forks, so that a process of several threads must use a Predictor.
absl::StatusOr<report::Report> PredictHere(spec::Spec spec, const std::string& file);

}  // namespace twofold
