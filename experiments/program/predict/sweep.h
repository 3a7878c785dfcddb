// Specs that differ in some fields: all combinations of the values that --vary gives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct Varied {
  std::string path;                 // of the field
  std::vector<std::string> values;  // as --set takes them
};
// "parallel.tp=1,2,4". Refuses texts without a path, values or "=", and paths that come twice.
absl::StatusOr<std::vector<Varied>> ParseVaried(absl::Span<const std::string> texts);

// The settings of a prediction: these, and no trace unless they say otherwise.
std::vector<std::string> SetsOfPrediction(absl::Span<const std::string> sets);

inline constexpr int64_t kMostVariants = 100'000;

struct Variant {
  std::vector<std::string> values;  // of each varied field
  absl::StatusOr<spec::Spec> spec;  // resolved, on fabric simulated; an error if these values do not go together
  std::optional<absl::StatusOr<report::Report>> report = std::nullopt;  // once predicted
};
// In order; the last field varies fastest. Not traced, unless `sets` says otherwise. Refuses more than kMostVariants,
// and specs that are wrong whatever the values.
absl::StatusOr<std::vector<Variant>> VariantsOf(const std::string& path, absl::Span<const std::string> sets,
                                                absl::Span<const Varied> varied);

}  // namespace twofold
