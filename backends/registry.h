// The table of fabrics. A new backend is one folder and one row in registry.cc; --fabric, --help, `twofold list fabrics`
// and the conformance suite read this table. What the row calls, the folder's fabric.h declares; a folder that not every build can have
// has a file no_NAME.cc, too, which says why, and its CMakeLists.txt chooses.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

struct Backend {
  std::string_view name, summary;
  std::string (*why_not)();  // empty: available; else why this build or machine lacks it. Changes nothing
  absl::StatusOr<std::unique_ptr<Fabric>> (*make)(const spec::Spec& spec);
  // Makes this process one that will run the fabric: sets variables that its libraries read when they are first called. Null: there are none.
  void (*prepare)() = nullptr;
  // The words that, put before a command line, start it as `ranks` processes, one a rank. Null: ranks live within the
  // process that calls Run, or are its children, or `by_variables`.
  std::vector<std::string> (*launcher)(int ranks) = nullptr;
  // Ranks are processes that `twofold launch` starts itself, each told by variables (launch.h) who it is.
  bool by_variables = false;
  // Reductions combine ranks in rank order and narrow types are rounded once, so that every such row gives the same bits.
  // False: any order, and bf16 and f16 may be rounded at every step.
  bool canonical_reductions = true;
  // Where what lies on GPUs is communicated through the host's memory: how much of that each group of several ranks holds
  // (core/comm/staging.h). Null: none.
  Bytes (*staging)(const spec::Spec& spec) = nullptr;
};

// Whether its ranks are processes that somebody starts, one a rank; else one process runs them all.
bool RanksAreProcesses(const Backend& backend);
// Refuses several processes where the fabric has use for one, which would each do the whole job: who started them, and what
// would be right.
absl::Status CheckStartedFor(std::string_view fabric);

std::span<const Backend> Backends();
const Backend* FindBackend(std::string_view name);  // null: no such row
std::string Prepare(const Backend& backend);        // for MakeFabric, once it is clear that this is the one; why_not()
// The backend that the spec names. Refuses one that is not available, with the reason and the names of those that are.
absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const spec::Spec& spec);
// Backend::staging of the spec's fabric; zero where this build does not have it.
Bytes StagingOf(const spec::Spec& spec);

}  // namespace twofold
