// All that `twofold plan` does: from what is asked to the layouts and what proves them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/plan/search.h"
#include "experiments/program/plan/table.h"

namespace twofold {

// The command's options, as it names them. Either `spec`, a path, or `model`.
struct PlanAsked {
  std::string spec, model, cluster, framework, gap = "1%", budget, out, codecs;
  std::optional<std::string> text;  // of the spec, where it is no file; `spec` begins errors then
  int64_t nodes = 0, ranks = 0, global_batch = 0, sequence = 0, top = 10;
  double price = 0;
  int processes = 0;
  std::vector<std::string> sets;
  bool exhaustive = false, what_if = false;
};

struct PlanMade {
  plan::Question question;
  plan::Plan plan;
  plan::Shown shown;
  std::string name;  // of the planned spec, if what was asked about has none
};

// Forks processes, so that the caller must have one thread. With `out`, keeps a journal there, and goes on from it.
// Only INTERNAL errors are not the input's. `progress` may be null.
absl::StatusOr<PlanMade> MakePlan(const PlanAsked& asked, std::function<void(const std::string& doing)> progress);

// Writes the first layout's spec and plan.json to a folder. Some layout must have been found.
absl::Status WritePlan(const PlanMade& made, const std::string& folder);

}  // namespace twofold
