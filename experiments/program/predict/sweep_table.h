// The results of a sweep, as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/types/span.h"
#include "experiments/program/predict/sweep.h"

namespace twofold {

// A line per variant: the varied values, step time and its interval, tokens per second, MFU and peak memory; or why
// there is no prediction, or what is predicted to fail.
std::string SweepText(absl::Span<const Varied> varied, absl::Span<const Variant> variants);
// A list; each element has "set" (path to value) and either "error" or the report's figures, by their names.
nlohmann::ordered_json SweepJson(absl::Span<const Varied> varied, absl::Span<const Variant> variants);

}  // namespace twofold
