#include "experiments/program/device_facts.h"

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "backends/host/costs.h"
#include "backends/host/cuda.h"
#include "core/base/strings.h"
#include "sim/cost/read_profile.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

double SheetPeak(const cluster::Device& device, spec::DType dtype) {
  switch (dtype) {
    case spec::F64: return device.f64_flops_per_second();
    case spec::BF16:
    case spec::F16: return device.bf16_flops_per_second();
    default: return device.f32_flops_per_second();
  }
}

// The profile that the spec names, else this machine's; empty if there is none.
profile::Profile MeasuredProfile(const spec::Spec& spec) {
  const std::string& named = spec.fabric().simulated().profile();
  return ReadProfile(!named.empty()                ? named
                     : spec.device() == spec::CUDA ? kThisMachineCudaProfile
                                                   : kThisMachineProfile)
      .value_or(profile::Profile());
}

report::Load LoadAtCalibration(const profile::Profile& profile) {
  report::Load load;
  if (!profile.has_load()) return load;
  load.set_taken(profile.load().taken()), load.set_stolen(profile.load().stolen()),
      load.set_others(profile.load().others());
  return load;
}

DeviceFacts FactsOfEmulated(const spec::Spec& spec) {
  const absl::StatusOr<host::Costs> costs = host::FindCosts(spec.emulated());
  if (!costs.ok()) return {};
  const double measured = costs->profile.peak_flops_per_second();
  const double peak = measured > 0 ? measured : SheetPeak(costs->device, spec.train().precision().parameter());
  return {.name = StrCat("emulated ", costs->device.name()),
          .peak_flops_per_second = peak * costs->speed,
          .calibration = LoadAtCalibration(costs->profile)};
}

// The first device of the catalogue whose first word ("A100" of "A100-80GB SXM") is part of the GPU's name. An H200
// computes as fast as an H100.
DeviceFacts FactsOfGpus(const spec::Spec& spec) {
  // memory can be predicted for it nevertheless
  if (!host::WhyNoCuda().empty()) return {.name = "a GPU that is not here"};
  const int gpu = spec.cuda().gpus_size() > 0 ? spec.cuda().gpus(0) : 0;
  DeviceFacts facts{.name = host::NameOfGpu(gpu)};
  const std::string name = absl::StrReplaceAll(facts.name, {{" H200", " H100"}});
  for (const ClusterInfo& info : ListClusters()) {
    const absl::StatusOr<cluster::Cluster> cluster = FindCluster(info.name);
    if (!cluster.ok() || cluster->device().kind() != cluster::Device::GPU_DEVICE) continue;
    const std::string& device = cluster->device().name();
    if (!absl::StrContains(name, device.substr(0, device.find_first_of("- ")))) continue;
    facts.peak_flops_per_second = SheetPeak(cluster->device(), spec.train().precision().parameter());
    break;
  }
  return facts;
}

}  // namespace

DeviceFacts FactsOfDevice(const spec::Spec& spec) {
  if (spec.device() == spec::EMULATED) return FactsOfEmulated(spec);
  if (spec.device() == spec::CUDA && !spec.fabric().has_simulated()) return FactsOfGpus(spec);
  if (!spec.fabric().has_simulated())
    return {.name = "CPU", .peak_flops_per_second = MeasuredProfile(spec).peak_flops_per_second()};
  const absl::StatusOr<cluster::Cluster> cluster = FindCluster(spec.fabric().simulated().cluster());
  if (!cluster.ok()) return {};
  const cluster::Device& device = cluster->device();
  const bool this_machine = cluster->name() == kThisMachine;
  const profile::Profile measured =
      this_machine || !spec.fabric().simulated().profile().empty() ? MeasuredProfile(spec) : profile::Profile();
  return {.name = device.name(),
          .peak_flops_per_second =
              this_machine ? measured.peak_flops_per_second() : SheetPeak(device, spec.train().precision().parameter()),
          .calibration = LoadAtCalibration(measured)};
}

}  // namespace twofold
