// What would a job take with other choices? Answers of the desk's what-if page.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::desk {

using Predict = std::function<absl::StatusOr<report::Report>(const spec::Spec&)>;  // of a resolved spec

struct WhatIfAsked {
  std::string text;               // the spec to begin with
  std::string name;               // of its file, for messages
  std::vector<std::string> sets;  // "path=value", as --set takes them
};

// Two steps are predicted on fabric simulated, without traces. The answer has
//   outcome, message                                       as in report.json
//   seconds, low, high, tokens_per_second, mfu, bubble, exposed_seconds, peak_bytes, reserved_bytes
//   device_bytes                                           of a rank's device; 0: not bounded
//   notes, spec                                            the spec that was predicted, to copy
// INVALID_ARGUMENT if the spec is not valid: the text names the field.
absl::StatusOr<nlohmann::ordered_json> WhatIf(const WhatIfAsked& asked, const Predict& predict);

}  // namespace twofold::desk
