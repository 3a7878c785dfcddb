#include "experiments/program/framework.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/memory/framework_memory.h"
#include "experiments/program/memory/predict.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

void Fail(report::Outcome outcome, const std::string& message, report::Report& report) {
  report.set_outcome(outcome);
  report.set_message(message);
  report.clear_steps(), report.clear_kernels(), report.clear_collectives();
  report.clear_median_step_seconds(), report.clear_low(), report.clear_high(), report.clear_tokens_per_second();
  report.clear_mfu(), report.clear_hfu(), report.clear_exposed_communication_seconds(), report.clear_bubble_fraction();
  report.clear_traced_step_seconds(), report.clear_waiting_seconds(), report.clear_exposed_other_seconds();
}

// Of this program's own memory: what ranks reserved beyond the bounds.
int64_t MissingBytes(const host::MemoryRules& rules, const report::Report& report) {
  int64_t missing = 0, all = 0;
  for (const report::Rank& rank : report.ranks()) {
    const int64_t count = rank.has_stands_for() ? rank.stands_for().count() : 1;
    all += count * (rank.reserved_bytes() + rank.host_reserved_bytes());
    if (rules.device.value() > 0) missing = std::max(missing, rank.reserved_bytes() - rules.device.value());
    if (rules.host.value() > 0) missing = std::max(missing, rank.host_reserved_bytes() - rules.host.value());
  }
  return rules.shared.value() > 0 ? std::max(missing, all - rules.shared.value()) : missing;
}

void Assumed(int64_t missing, report::Report& report) {
  report.set_missing_memory_bytes(missing);
  if (missing == 0) return;
  report.add_notes(
      StrCat("memory.assume_fits: it does not fit: ", CountText(missing), " bytes are missing on the fullest device"));
}

}  // namespace

void AddFramework(const spec::Spec& spec, const Samples& samples, report::Report& report) {
  const bool assumed = spec.memory().assume_fits(), other = spec.framework() != spec::TWOFOLD;
  if ((!assumed && !other) || report.outcome() != report::OK) return;
  if (!other) {
    if (const auto rules = FindMemoryRules(spec); rules.ok()) Assumed(MissingBytes(*rules, report), report);
    return;
  }
  report.set_framework(spec::Framework_Name(spec.framework()));
  const absl::StatusOr<framework::Framework> f = FindFramework(spec);
  const absl::StatusOr<MemoryPrediction> needed = PredictMemory(spec, samples, /*bounded=*/false);
  absl::Status status = f.ok() ? needed.status() : f.status();
  if (status.ok()) status = needed->status();
  if (!status.ok()) {
    report.add_notes(StrCat("the framework's memory could not be predicted: ", std::string(status.message())));
    return Fail(report::FAILED, std::string(status.message()), report);
  }
  const std::vector<report::FrameworkMemory> memory = FrameworkMemoryOf(spec, *f, *needed);
  int64_t most = 0;
  for (size_t k = 0; k < memory.size(); ++k) {
    const std::vector<int>& ranks = needed->kinds[k].ranks;
    for (report::Rank& rank : *report.mutable_ranks()) {
      if (std::binary_search(ranks.begin(), ranks.end(), static_cast<int>(rank.rank())))
        *rank.mutable_framework() = memory[k];
    }
    most = std::max(most, memory[k].least_device_bytes());
  }
  const Bytes device = needed->rules.device;
  if (assumed) return Assumed(device.value() == 0 ? 0 : std::max<int64_t>(0, most - device.value()), report);
  if (const absl::Status fits = FrameworkFits(memory, *needed, *f, device); !fits.ok())
    Fail(report::OUT_OF_MEMORY, std::string(fits.message()), report);
}

}  // namespace twofold
