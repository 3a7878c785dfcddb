// What a plan prints, and its JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "experiments/program/plan/search.h"

namespace twofold::plan {

// Another question, and its answer.
struct WhatIf {
  std::string name;
  absl::StatusOr<Plan> plan;
  SearchOptions options;
};

struct Shown {
  int64_t rows = 10;
  double price = 0;  // of a device and hour; 0: unknown
  Bytes device;      // a rank's memory; 0: not known
  int64_t ranks = 1;
  SearchOptions options;
  std::vector<WhatIf> what_if = {};
};

// The table of the best layouts, what proves it, why the first wins, what does not fit by little.
std::string PlanText(const Plan& plan, const Shown& shown);
// What planning took, which differs from run to run: "of a core: 150 us for each of 184,616 combinations, ...".
std::string PlanCostText(const Plan& plan);
nlohmann::ordered_json PlanJson(const Plan& plan, const Shown& shown);

// Combinations that are not legal, by reason, the most frequent first.
std::string RefusalsText(const Space& space);

}  // namespace twofold::plan
