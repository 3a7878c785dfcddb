#include "experiments/program/memory_verdict.h"

#include "backends/host/cuda.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/device_facts.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

std::string LimitText(const spec::Spec& spec, const host::MemoryRules& rules) {
  host::MemoryRules of_device = rules;
  if (spec.memory().budget_mib() > 0) {
    spec::Spec without = spec;
    without.mutable_memory()->clear_budget_mib();
    if (const auto found = FindMemoryRules(without); found.ok()) of_device = *found;
  }
  const bool budgeted = rules.device != of_device.device;
  std::string text = StrCat(budgeted ? "memory.budget_mib" : FactsOfDevice(spec).name, ": ",
                            CountText(rules.device.value()), " bytes");
  const bool offloads = spec.parallel().offload() != spec::Parallel::NO_OFFLOAD;
  if (offloads && rules.host.value() > 0)
    StrAppend(&text, "; of the host's memory: ", CountText(rules.host.value()), " bytes");
  return text;
}

// The name of the simulated or emulated cluster; "": ranks compute on real devices.
std::string ClusterOf(const spec::Spec& spec) {
  if (spec.device() == spec::EMULATED) return spec.emulated().cluster();
  return spec.fabric().has_simulated() ? spec.fabric().simulated().cluster() : "";
}

MemoryVerdict NotKnown(std::string_view why) {
  return {.text = StrCat("It is not known whether it fits: ", why, ".\n")};
}

// For ranks on CPUs that share one memory, or may share it: with a fabric of processes this is unknown before they
// start.
MemoryVerdict JudgeOnMachine(const spec::Spec& spec, const MemoryPrediction& needed) {
  int64_t ranks = 0, all = 0;
  for (const RankKind& kind : needed.kinds) {
    const auto n = static_cast<int64_t>(kind.ranks.size());
    ranks += n, all += n * (kind.record.memory().reserved_bytes() + kind.record.memory().host_reserved_bytes());
  }
  const Bytes machine = MachineMemory();
  const std::string reserve =
      StrCat(ranks == 1 ? "its rank reserves " : StrCat("its ", CountText(ranks), " ranks reserve "), CountText(all),
             " bytes");
  const std::string has = StrCat("this machine has ", CountText(machine.value()));
  const bool fits = all <= machine.value();
  if (ClusterOf(spec).empty() && RanksAreProcesses(spec)) {
    if (!fits)
      return NotKnown(
          StrCat(reserve, ", and ", has, "; ranks of fabric ", FabricName(spec), " may be on several hosts"));
    return {.text = StrCat("It fits if all ranks are on this machine: ", reserve, ", and ", has, ".\n")};
  }
  if (fits)
    return {.fits = true, .text = StrCat("It fits this machine: ", reserve, ", and ", has, ".\n"), .machine = machine};
  return {.fits = false,
          .text = StrCat("It does not fit this machine: ", reserve, ", and ", has, ".\n"),
          .status = absl::ResourceExhaustedError(StrCat(reserve, ", and ", has)),
          .machine = machine};
}

}  // namespace

MemoryVerdict JudgeMemory(const spec::Spec& spec, const MemoryPrediction& prediction, const MemoryPrediction& needed) {
  const host::MemoryRules& rules = prediction.rules;
  if (const absl::Status status = prediction.status(); !status.ok()) {
    return {.fits = false,
            .text = StrCat("It does not fit (", LimitText(spec, rules), "):\n  ", std::string(status.message()),
                           "\nThe figures below are those of a device with unlimited memory.\n"),
            .status = status};
  }
  if (rules.device.value() > 0) return {.fits = true, .text = StrCat("It fits (", LimitText(spec, rules), ").\n")};
  const std::string cluster = ClusterOf(spec);
  if (cluster.empty() && spec.device() == spec::CUDA) {
    const std::string why = host::WhyNoCuda();
    return NotKnown(StrCat(why.empty() ? host::ChooseCuda(spec).status().message() : why,
                           "; set memory.budget_mib, or a cluster with --fabric=simulated"));
  }
  const bool here = cluster.empty() || FindCluster(cluster)->name() == kThisMachine;
  if (here && spec.device() != spec::CUDA) return JudgeOnMachine(spec, needed);
  return NotKnown(StrCat("cluster ", cluster, " does not say how much memory its devices have; set memory.budget_mib"));
}

MemoryVerdict JudgeFramework(const MemoryPrediction& needed, const framework::Framework& f,
                             const std::vector<report::FrameworkMemory>& memory) {
  const Bytes device = needed.rules.device;
  if (device.value() == 0) return NotKnown("the cluster does not say how much memory its devices have");
  const std::string has = StrCat(CountText(device.value()), " bytes");
  if (const absl::Status status = FrameworkFits(memory, needed, f, device); !status.ok()) {
    return {
        .fits = false,
        .text = StrCat("It does not fit under ", f.name(), " (", has, "):\n  ", std::string(status.message()), "\n"),
        .status = status};
  }
  return {.fits = true, .text = StrCat("It fits under ", f.name(), " (", has, ").\n")};
}

}  // namespace twofold
