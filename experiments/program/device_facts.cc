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
    case spec::F64:
      return device.f64_flops_per_second();
    case spec::BF16:
    case spec::F16:
      return device.bf16_flops_per_second();
    default:
      return device.f32_flops_per_second();
  }
}

double MeasuredPeak(const spec::Spec& spec) {
  const std::string& named = spec.fabric().simulated().profile();
  const absl::StatusOr<profile::Profile> profile = ReadProfile(!named.empty() ? named : spec.device() == spec::CUDA ? kThisMachineCudaProfile : kThisMachineProfile);
  return profile.ok() ? profile->peak_flops_per_second() : 0;
}

DeviceFacts FactsOfEmulated(const spec::Spec& spec) {
  const absl::StatusOr<host::Costs> costs = host::FindCosts(spec.emulated());
  if (!costs.ok()) return {};
  const double measured = costs->profile.peak_flops_per_second();
  const double peak = measured > 0 ? measured : SheetPeak(costs->device, spec.train().precision().parameter());
  return {.name = StrCat("emulated ", costs->device.name()), .peak_flops_per_second = peak * costs->speed};
}

// The first device of the catalogue whose name's first word, "A100" of "A100-80GB SXM", is part of the GPU's. An H200 computes as
// fast as an H100.
DeviceFacts FactsOfGpus(const spec::Spec& spec) {
  if (!host::WhyNoCuda().empty()) return {.name = "a GPU that is not here"};  // whose memory is predicted all the same
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
  if (!spec.fabric().has_simulated()) return {.name = "CPU", .peak_flops_per_second = MeasuredPeak(spec)};
  const absl::StatusOr<cluster::Cluster> cluster = FindCluster(spec.fabric().simulated().cluster());
  if (!cluster.ok()) return {};
  const cluster::Device& device = cluster->device();
  return {.name = device.name(),
          .peak_flops_per_second = cluster->name() == kThisMachine
                                       ? MeasuredPeak(spec)
                                       : SheetPeak(device, spec.train().precision().parameter())};
}

}  // namespace twofold
