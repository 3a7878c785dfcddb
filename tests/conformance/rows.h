// The fabrics that the suite runs on, and how a case runs on one.
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
  spec::Spec spec;                    // with real data where that is an option
  std::vector<std::string> launcher;  // starts most_ranks processes; empty: ranks live in the test's process
  bool exact_reductions = true;
  std::string label = {};       // of its test, in addition to "conformance"
  int most_ranks = kMostRanks;  // the most that this machine has room for
};
// Every row of the registry; the in-memory fabric with collectives built from its messages, with slow links, and on a
// GPU; and MPI on a GPU with staged buffers and with buffers passed directly.
const std::vector<Row>& Rows();

struct Outcome {
  absl::Status status;
  bool speaks = true;                // false: another process has the `reports`
  std::vector<std::string> reports;  // by rank: the errors found, or kFine
};
inline constexpr char kFine[] = "fine";

// Wraps the world of a rank; the returned group is destroyed before the world.
using WorldWrapper = std::function<std::unique_ptr<ProcessGroup>(RankContext&)>;

Outcome RunCase(Fabric& fabric, const Case& c, int ranks, bool exact_reductions, const WorldWrapper& wrap = nullptr);

}  // namespace twofold::conformance
