// The table of fabrics. A new backend is one folder plus one row in registry.cc; --fabric, --version, `twofold list
// fabrics` and the conformance suite read this table. The functions named in a row are declared in the folder's
// fabric.h. A folder that some builds lack also has a file no_NAME.cc that says why; its CMakeLists.txt chooses between
// the two.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/memory_rules.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"

namespace twofold {

struct Backend {
  std::string_view name, summary;
  std::string (*why_not)();  // empty if available, else why this build or machine lacks it; no side effects
  absl::StatusOr<std::unique_ptr<Fabric>> (*make)(const spec::Spec& spec);
  // Prepares this process to run the fabric: sets environment variables that its libraries read when they are first
  // called. May be null.
  void (*prepare)() = nullptr;
  // Returns a launcher's command, such as {"mpirun", "-n", "4"}. The caller appends a program and its arguments. The
  // launcher then starts that program as `ranks` processes, one per rank. Null if ranks are threads or children of the
  // process that calls Run, or if they are started `by_variables`.
  std::vector<std::string> (*launcher)(int ranks) = nullptr;
  bool gpu_memory_only = false;  // tensors in the host's memory cannot be communicated
  // What `twofold calibrate` measures on it: nothing, this machine's kernels and shared memory, or messages between
  // processes.
  enum class Calibration { kNone, kMachine, kMessages } calibration = Calibration::kNone;
  // Ranks are processes that `twofold launch` starts itself; each learns its rank from environment variables
  // (launch.h).
  bool by_variables = false;
  // Reductions combine ranks in rank order, and BF16 and F16 are rounded once, so all such fabrics produce identical
  // bits. If false: any order, and BF16 and F16 may be rounded at every step.
  bool canonical_reductions = true;
  // If GPU tensors are communicated through host memory: how much host memory each group of several ranks holds for
  // that (core/comm/staging.h). May be null.
  Bytes (*staging)(const spec::Spec& spec) = nullptr;
};

// Whether its ranks are separately started processes, one per rank; otherwise one process runs them all.
bool RanksAreProcesses(const Backend& backend);
bool RanksAreProcesses(const spec::Spec& spec);  // on the spec's fabric
// Refuses a fabric that runs all ranks in one process if several processes were started, since each of them would do
// the whole job. The error says who started the processes and how to start the program correctly.
absl::Status CheckStartedFor(std::string_view fabric);

std::span<const Backend> Backends();
const Backend* FindBackend(std::string_view name);  // null if there is none
std::string Prepare(const Backend& backend);  // called by MakeFabric once it has chosen this backend; returns why_not()
// Creates the fabric that the spec names. Refuses one that is unavailable, with the reason and the names of those that
// are available.
absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const spec::Spec& spec);
// Backend::staging of the spec's fabric; zero if this build does not have the fabric.
Bytes StagingOf(const spec::Spec& spec);
// How much memory each rank of the spec has. Refuses an unknown cluster, or more nodes than it has.
absl::StatusOr<host::MemoryRules> FindMemoryRules(const spec::Spec& spec);

}  // namespace twofold
