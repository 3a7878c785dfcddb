#include "backends/registry.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_join.h"
#include "backends/in_memory/fabric.h"
#include "backends/launch.h"
#include "backends/mpi_row.h"
#include "backends/nccl_row.h"
#include "backends/simulated_row.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::string_view FabricName(const spec::Fabric& fabric) {
  switch (fabric.kind_case()) {
    case spec::Fabric::kInMemory: case spec::Fabric::KIND_NOT_SET: return "in_memory";
    case spec::Fabric::kSimulated: return "simulated";
    case spec::Fabric::kMpi: return "mpi";
    case spec::Fabric::kGloo: return "gloo";
    case spec::Fabric::kNccl: return "nccl";
  }
  return "";
}

std::string AvailableNames() {
  std::vector<std::string> names;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty()) names.emplace_back(b.name);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

bool RanksAreProcesses(const Backend& backend) { return backend.by_variables || !backend.launcher(1).empty(); }

absl::Status CheckStartedFor(std::string_view fabric) {
  const Launch launch = LaunchedAs();
  const Backend* const row = FindBackend(fabric);
  if (launch.size < 2 || row == nullptr || !row->why_not().empty() || RanksAreProcesses(*row)) return absl::OkStatus();
  std::vector<std::string> fitting;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty() && (b.by_variables || (launch.by_mpi && RanksAreProcesses(b)))) fitting.emplace_back(b.name);
  }
  return absl::InvalidArgumentError(StrCat(launch.size, " processes were started (", launch.launcher, "), and fabric ", fabric, " runs all ranks in one; ",
                                           fitting.empty() ? "" : StrCat("use --fabric=", absl::StrJoin(fitting, " or "), ", or "), "start it once"));
}

std::span<const Backend> Backends() {
  static const std::array<Backend, 4> kBackends = {InMemoryBackend(), MpiBackend(), NcclBackend(), SimulatedBackend()};
  return kBackends;
}

const Backend* FindBackend(std::string_view name) {
  const auto rows = Backends();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Backend& b) { return b.name == name; });
  return row == rows.end() ? nullptr : &*row;
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeFabric(const spec::Spec& spec) {
  const std::string_view name = FabricName(spec.fabric());
  const Backend* row = FindBackend(name);
  const std::string reason = row == nullptr ? "this build does not have it" : row->why_not();
  if (reason.empty()) return row->make(spec);
  return absl::UnimplementedError(
      StrCat("fabric.", name, " is not available: ", reason, "; available: ", AvailableNames()));
}

Bytes StagingOf(const spec::Spec& spec) {
  const Backend* row = FindBackend(FabricName(spec.fabric()));
  return row == nullptr || row->staging == nullptr ? Bytes(0) : row->staging(spec);
}

}  // namespace twofold
