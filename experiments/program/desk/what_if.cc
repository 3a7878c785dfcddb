#include "experiments/program/desk/what_if.h"

#include <algorithm>

#include "backends/registry.h"
#include "experiments/program/spec/spec.h"

namespace twofold::desk {
namespace {

// What the question leaves open: the size of the cluster follows from the layout.
absl::StatusOr<std::string> BeginningOf(const WhatIfAsked& asked) {
  absl::StatusOr<spec::Spec> given = ParseSpec(asked.text, asked.name);
  if (!given.ok()) return given.status();
  given->mutable_fabric()->mutable_simulated()->clear_nodes();
  spec::Train& train = *given->mutable_train();
  train.clear_epochs(), train.clear_validation(), train.clear_checkpoint(), train.clear_resume();
  train.set_steps(2), train.set_warmup_steps(1);
  given->mutable_trace()->set_enabled(false);
  return SpecToText(*given);
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> WhatIf(const WhatIfAsked& asked, const Predict& predict) {
  const absl::StatusOr<std::string> text = BeginningOf(asked);
  if (!text.ok()) return text.status();
  const absl::StatusOr<spec::Spec> spec = ResolveSpec(*text, asked.name, "simulated", asked.sets);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<host::MemoryRules> rules = FindMemoryRules(*spec);
  if (!rules.ok()) return rules.status();
  const absl::StatusOr<report::Report> report = predict(*spec);
  if (!report.ok()) return report.status();
  int64_t peak = 0, reserved = 0;
  for (const report::Rank& rank : report->ranks()) {
    peak = std::max(peak, rank.peak_bytes());
    reserved = std::max(reserved, rank.has_framework() ? rank.framework().device_bytes() : rank.reserved_bytes());
  }
  nlohmann::ordered_json answer{{"outcome", report::Outcome_Name(report->outcome())},
                                {"message", report->message()},
                                {"seconds", report->median_step_seconds()},
                                {"low", report->low()},
                                {"high", report->high()},
                                {"tokens_per_second", report->tokens_per_second()},
                                {"mfu", report->mfu()},
                                {"bubble", report->bubble_fraction()},
                                {"exposed_seconds", report->exposed_communication_seconds()},
                                {"peak_bytes", peak},
                                {"reserved_bytes", reserved},
                                {"device_bytes", rules->device.value()},
                                {"notes", nlohmann::ordered_json::array()},
                                {"spec", SpecToText(*spec)}};
  for (const std::string& note : report->notes()) answer["notes"].push_back(note);
  return answer;
}

}  // namespace twofold::desk
