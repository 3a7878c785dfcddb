// Ways to make a spec fit its devices' memory: fields to change, found by predicting the changed specs.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"

namespace twofold {

struct MemoryRemedy {
  std::vector<std::string> sets;  // "path=value", as --set takes them
  int64_t reserved_bytes = 0;     // of the rank that reserves most
  double seconds = 0;             // predicted step time; 0: not known
};
struct MemoryAdvice {
  double seconds = 0;                  // of the spec itself, if it fitted; 0: not known
  int tried = 0;                       // changed specs whose memory was predicted
  int fitting = 0;                     // of these; step times are predicted of the first kMostTimed
  std::vector<MemoryRemedy> remedies;  // the fastest first, at most kMostRemedies; all fit
};
inline constexpr size_t kMostRemedies = 3, kMostTimed = 12;

// Bytes that the fullest rank reserves, if the spec fits with these changes; nullopt if it does not; an error if they
// make no valid spec.
using FitsWith = std::function<absl::StatusOr<std::optional<int64_t>>(const std::vector<std::string>& sets)>;
// Step times of the spec with each of these changes, in seconds; 0 where it cannot be predicted. No changes: the spec
// itself, as if it fitted.
using TimesWith = std::function<std::vector<double>(std::span<const std::vector<std::string>> changes)>;

// Tries BF16, recomputation, the further stages of ZeRO, a larger tp, offload and smaller micro-batches: each alone,
// and if fewer than kMostRemedies of these fit, two and three together. The number of ranks and the global batch stay.
// `spec` is resolved and does not fit.
MemoryAdvice AdviseOnMemory(const spec::Spec& spec, const FitsWith& fits, const TimesWith& times);

// The advice as a table, with costs against the spec itself, or a sentence that nothing fits.
std::string MemoryAdviceText(const MemoryAdvice& advice);
// {seconds, tried, fitting, remedies: [{set, reserved_bytes, seconds}]}
nlohmann::ordered_json MemoryAdviceJson(const MemoryAdvice& advice);

}  // namespace twofold
