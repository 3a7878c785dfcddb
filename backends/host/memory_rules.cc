#include "backends/host/memory_rules.h"

#include <algorithm>
#include <cmath>

#include "topologies/catalogue.h"

namespace twofold::host {
namespace {

// A budget of less than a byte bounds, too.
Bytes BudgetOf(const spec::Memory& memory) {
  if (memory.budget_mib() <= 0) return Bytes(0);
  return Bytes(std::max<int64_t>(1, std::llround(std::floor(memory.budget_mib() * 1048576.0))));
}

}  // namespace

MemoryRules MemoryRulesOf(const spec::Spec& spec, const cluster::Device& device) {
  MemoryRules rules{.kind = DeviceKind::kCpu, .device = Bytes(device.memory_bytes())};
  if (spec.device() != spec::EMULATED && device.kind() == cluster::Device::GPU_DEVICE) rules.kind = DeviceKind::kCuda;
  const Bytes budget = BudgetOf(spec.memory());
  if (budget.value() > 0) rules.device = rules.device.value() > 0 ? std::min(rules.device, budget) : budget;
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
