#include "backends/registry.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_join.h"
#include "backends/gloo/fabric.h"
#include "backends/in_memory/fabric.h"
#include "backends/launch/launch.h"
#include "backends/mpi/fabric.h"
#include "backends/nccl/fabric.h"
#include "backends/simulated/fabric.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"

namespace twofold {
namespace {

std::string AvailableNames() {
  std::vector<std::string> names;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty()) names.emplace_back(b.name);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

bool RanksAreProcesses(const Backend& backend) { return backend.by_variables || backend.launcher != nullptr; }

bool RanksAreProcesses(const spec::Spec& spec) {
  const Backend* const row = FindBackend(FabricName(spec));
  return row != nullptr && RanksAreProcesses(*row);
}

absl::Status CheckStartedFor(std::string_view fabric) {
  const Launch launch = LaunchedAs();
  const Backend* const row = FindBackend(fabric);
  if (launch.size < 2 || row == nullptr || RanksAreProcesses(*row) || !row->why_not().empty()) return absl::OkStatus();
  std::vector<std::string> fitting;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty() && (b.by_variables || (launch.by_mpi && RanksAreProcesses(b))))
      fitting.emplace_back(b.name);
  }
  return InvalidArgument(launch.size, " processes were started (", launch.launcher, "), but fabric ", fabric,
                         " runs all ranks in one process; ",
                         fitting.empty() ? "" : StrCat("use --fabric=", absl::StrJoin(fitting, " or "), ", or "),
                         "start one process");
}

std::span<const Backend> Backends() {
  static constexpr std::array<Backend, 5> kBackends = {{
      {.name = "in_memory",
       .summary = "ranks are threads of this process; they communicate through shared memory, or directly between GPUs",
       .why_not = [] { return std::string(); },
       .make = [](const spec::Spec& spec) { return MakeInMemoryFabric(spec); },
       .calibration = Backend::Calibration::kMachine},
      {.name = "mpi",
       .summary = "ranks are processes that mpirun, srun or `twofold launch` starts; they communicate through Open MPI",
       .why_not = WhyNoMpi,
       .make = [](const spec::Spec& spec) { return MakeMpiFabric(spec); },
       .launcher = MpiLauncher,
       .calibration = Backend::Calibration::kMessages,
       .canonical_reductions = false,
       .staging = MpiStaging},
      {.name = "gloo",
       .summary = "ranks are processes on CPUs; they communicate through Gloo, over TCP",
       .why_not = WhyNoGloo,
       .make = MakeGlooFabric,
       .calibration = Backend::Calibration::kMessages,
       .by_variables = true,
       .canonical_reductions = false},
      {.name = "nccl",
       .summary = "ranks are processes with a GPU each; they communicate through NCCL",
       .why_not = WhyNoNccl,
       .make = MakeNcclFabric,
       .prepare = [] { PrepareNccl(); },
       .gpu_memory_only = true,
       .by_variables = true,
       .canonical_reductions = false},
      {.name = "simulated",
       .summary = "ranks and the network between them are simulated; times are predicted",
       .why_not = WhyNoSimulated,
       .make = MakeSimulatedFabric,
       .staging = SimulatedStaging},
  }};
  return kBackends;
}

const Backend* FindBackend(std::string_view name) {
  const auto rows = Backends();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Backend& b) { return b.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

std::string Prepare(const Backend& backend) {
  if (backend.prepare != nullptr) backend.prepare();
  return backend.why_not();
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const spec::Spec& spec) {
  const std::string name = FabricName(spec);
  const Backend* row = FindBackend(name);
  const std::string reason = row == nullptr ? "this build does not have it" : Prepare(*row);
  if (reason.empty()) return row->make(spec);
  return absl::UnimplementedError(
      StrCat("fabric.", name, " is not available: ", reason, "; available fabrics: ", AvailableNames()));
}

Bytes StagingOf(const spec::Spec& spec) {
  const Backend* row = FindBackend(FabricName(spec));
  return row == nullptr || row->staging == nullptr ? Bytes(0) : row->staging(spec);
}

absl::StatusOr<host::MemoryRules> FindMemoryRules(const spec::Spec& spec) {
  return host::FindMemoryRules(spec, RanksAreProcesses(spec) ? host::RanksAre::kProcesses : host::RanksAre::kThreads);
}

}  // namespace twofold
