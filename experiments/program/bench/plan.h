// From the command line to a fabric and a request. Every error here is an error in the user's input.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/run/fabric.h"
#include "experiments/program/bench/table.h"

namespace twofold::bench {

// The options as written; the default of an absent option depends on the others.
struct Options {
  std::string operation;
  std::optional<std::string> least, most, step;  // sizes
  std::optional<int64_t> factor;
  std::optional<int> iterations, warmup, check, root;
  std::optional<std::string> reduce, dtype;
  std::string fabric = "in_memory";
  std::optional<std::string> device;
  std::optional<int> ranks, nodes, ranks_per_node;
  std::optional<std::string> cluster, algorithm, protocol;
  bool wait = false;
  bool json = false;
  std::string shown_notes = "short";
  std::string out;
};

struct Plan {
  std::unique_ptr<Fabric> fabric;
  Bench bench;  // without results
};

// Errors name the option, the value and the accepted values.
absl::StatusOr<Plan> MakePlan(const Options& options);

// Runs it, and fills in plan.bench in the process that speaks for the job. An error says why rows are missing; it is in
// plan.bench.error too.
absl::Status Run(Plan& plan);

}  // namespace twofold::bench
