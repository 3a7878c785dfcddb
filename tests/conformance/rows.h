// The fabrics that the suite runs over, and how a case runs on one.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/registry.h"
#include "tests/conformance/cases.h"

namespace twofold::conformance {

struct Row {
  std::string name;
  std::string why_not;  // empty: available
  std::function<absl::StatusOr<std::unique_ptr<Fabric>>(const spec::Spec&)> make;
  spec::Spec spec;      // with real data where that is a choice
  std::vector<std::string> launcher;  // of most_ranks processes; empty: ranks live within the test's process
  bool exact_reductions = true;
  std::string label = {};  // of its test, besides "conformance"
  int most_ranks = kMostRanks;  // that this machine has room for
};
// Every row of the registry, and the in-memory fabric with collectives built from its messages, with slow links, and on a GPU; MPI on a GPU
// with buffers that are staged, and passed on.
const std::vector<Row>& Rows();

struct Outcome {
  absl::Status status;
  bool speaks = true;              // false: `reports` are elsewhere
  std::vector<std::string> reports;  // by rank: what it found wrong, or kFine
};
inline constexpr char kFine[] = "fine";

// Puts another group before a rank's world; what it returns ends before the world.
using WorldWrapper = std::function<std::unique_ptr<ProcessGroup>(RankContext&)>;

Outcome RunCase(Fabric& fabric, const Case& c, int ranks, bool exact_reductions, const WorldWrapper& wrap = nullptr);

}  // namespace twofold::conformance
