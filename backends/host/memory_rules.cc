#include "backends/host/memory_rules.h"

#include <algorithm>
#include <cmath>

#include "topologies/catalogue.h"

namespace twofold::host {
namespace {

// A budget of less than a byte bounds, too.
Bytes BudgetOf(double mib) {
  if (mib <= 0) return Bytes(0);
  return Bytes(std::max<int64_t>(1, std::llround(std::floor(mib * 1048576.0))));
}

// Zeros bound nothing.
Bytes Least(Bytes a, Bytes b) { return a.value() == 0 || (b.value() > 0 && b < a) ? b : a; }

}  // namespace

MemoryRules MemoryRulesOf(const spec::Spec& spec, const cluster::Device& device) {
  MemoryRules rules{.kind = DeviceKind::kCpu,
                    .device = Least(Bytes(device.memory_bytes()), BudgetOf(spec.memory().budget_mib())),
                    .host = Least(Bytes(device.host_memory_bytes()), BudgetOf(spec.memory().host_budget_mib()))};
  if (spec.device() != spec::EMULATED && device.kind() == cluster::Device::GPU_DEVICE) rules.kind = DeviceKind::kCuda;
  return rules;
}

absl::StatusOr<MemoryRules> FindMemoryRules(const spec::Spec& spec) {
  if (spec.device() != spec::EMULATED && !spec.fabric().has_simulated()) return MemoryRulesOf(spec, cluster::Device());
  const bool emulated = spec.device() == spec::EMULATED;
  absl::StatusOr<cluster::Cluster> c = emulated ? FindCluster(spec.emulated().cluster(), "emulated.cluster")
                                                : FindCluster(spec.fabric().simulated().cluster());
  if (!c.ok()) return c.status();
  return MemoryRulesOf(spec, c->device());
}

}  // namespace twofold::host
