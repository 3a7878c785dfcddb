#include "backends/host/memory_rules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backends/host/cuda.h"
#include "backends/host/simulated_cluster.h"
#include "backends/launch/launch.h"
#include "core/base/machine.h"
#include "core/proto/world_size.h"
#include "topologies/catalogue.h"

namespace twofold::host {
namespace {

// A positive budget of less than one byte is a bound, too.
Bytes BudgetOf(double mib) {
  if (mib <= 0) return Bytes(0);
  return Bytes(std::max<int64_t>(1, std::llround(std::floor(mib * 1048576.0))));
}

// Zero means no bound.
Bytes Least(Bytes a, Bytes b) { return a.value() == 0 || (b.value() > 0 && b < a) ? b : a; }

}  // namespace

MemoryRules MemoryRulesOf(const spec::Spec& spec, const cluster::Device& device) {
  MemoryRules rules{.kind = DeviceKind::kCpu,
                    .device = Least(Bytes(device.memory_bytes()), BudgetOf(spec.memory().budget_mib())),
                    .host = Least(Bytes(device.host_memory_bytes()), BudgetOf(spec.memory().host_budget_mib()))};
  const bool gpu = spec.device() == spec::CUDA || device.kind() == cluster::Device::GPU_DEVICE;
  if (spec.device() != spec::EMULATED && gpu) rules.kind = DeviceKind::kCuda;
  return rules;
}

MemoryRules MemoryRulesHere(const spec::Spec& spec, RanksAre ranks_are) {
  MemoryRules rules = MemoryRulesOf(spec, cluster::Device());
  if (spec.device() != spec::CUDA || rules.device.value() > 0) return rules;
  const absl::StatusOr<CudaChoice> choice = ChooseCuda(spec);
  if (!choice.ok()) return rules;
  // A rank that is a process queries only its own GPU: a query creates a context there, which takes memory.
  const Launch launch = LaunchedAs();
  if (ranks_are == RanksAre::kProcesses && launch.launched && launch.local_rank >= 0) {
    const int gpu = choice->Of(launch.local_rank);
    rules.device = FreeMemoryOf(gpu) / std::max(1, choice->RanksOn(gpu, launch.local_size));
    return rules;
  }
  const auto ranks = static_cast<int>(std::min<int64_t>(WorldSize(spec), 1 << 20));
  for (const int gpu : std::set<int>(choice->gpus.begin(), choice->gpus.end()))
    rules.device = Least(rules.device, FreeMemoryOf(gpu) / std::max(1, choice->RanksOn(gpu, ranks)));
  return rules;
}

absl::StatusOr<MemoryRules> FindMemoryRules(const spec::Spec& spec, RanksAre ranks) {
  if (spec.device() != spec::EMULATED && !spec.fabric().has_simulated()) return MemoryRulesHere(spec, ranks);
  const bool emulated = spec.device() == spec::EMULATED;
  absl::StatusOr<cluster::Cluster> c = emulated ? FindCluster(spec.emulated().cluster(), "emulated.cluster")
                                                : FindSimulatedCluster(spec.fabric().simulated());
  if (!c.ok()) return c.status();
  MemoryRules rules = MemoryRulesOf(spec, c->device());
  if (c->name() == kThisMachine && rules.kind == DeviceKind::kCpu && rules.device.value() == 0)
    rules.shared = MachineMemory();
  return rules;
}

}  // namespace twofold::host
