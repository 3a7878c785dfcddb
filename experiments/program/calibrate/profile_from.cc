#include "experiments/program/calibrate/profile_from.h"

#include <algorithm>

#include "sim/cost/kernel_table.h"

namespace twofold::calibrate {
namespace {

profile::Kernel& KernelOf(std::string_view name, std::string_view dtype, profile::Profile& profile) {
  for (profile::Kernel& kernel : *profile.mutable_kernels()) {
    if (kernel.name() == name && kernel.dtype() == dtype) return kernel;
  }
  profile::Kernel& kernel = *profile.add_kernels();
  kernel.set_name(std::string(name));
  kernel.set_dtype(std::string(dtype));
  return kernel;
}

// Bytes per second: `moved` bytes in each of the samples, minus the latency.
Spread Rate(const std::vector<double>& samples, Bytes moved, double latency) {
  std::vector<double> rates;
  for (const double s : samples) rates.push_back(static_cast<double>(moved.value()) / std::max(s - latency, 1e-9));
  return SpreadOf(rates);
}

}  // namespace

void AddPoint(const ops::KernelKey& key, std::string_view dtype, const ops::Cost& cost,
              const std::vector<double>& samples, profile::Profile& profile) {
  const Spread spread = SpreadOf(samples);
  profile::Point& p = *KernelOf(key.name, dtype, profile).add_points();
  const int dims = CountsFlops(key.name) ? 3 : 2;
  for (int d = 0; d < dims; ++d) p.add_dims(key.dims[static_cast<size_t>(d)]);
  p.set_flops(cost.flops.value());
  p.set_bytes(static_cast<double>(cost.bytes().value()));
  p.set_seconds(spread.median), p.set_low(spread.low), p.set_high(spread.high);
  if (key.name.starts_with("matmul_") && !key.name.starts_with("matmul_fp8_"))  // shares of peak are of wider types
    profile.set_peak_flops_per_second(std::max(profile.peak_flops_per_second(), p.flops() / p.seconds()));
}

void AddKernels(const std::vector<ops::KernelKey>& keys, const std::vector<ops::Cost>& costs, const Samples& samples,
                profile::Profile& profile) {
  TWOFOLD_CHECK_EQ(keys.size(), samples.size());
  profile.set_peak_flops_per_second(0);
  for (size_t i = 0; i < keys.size(); ++i) AddPoint(keys[i], DTypeName(keys[i].dtype), costs[i], samples[i], profile);
}

void AddLinks(const Samples& samples, int ranks, profile::Profile& profile) {
  TWOFOLD_CHECK_EQ(samples.size(), LinkRows::kRows);
  profile::SharedMemory& links = *profile.mutable_shared_memory();
  const Spread latency = SpreadOf(samples[LinkRows::kLatency]);
  links.set_latency_s(latency.median), links.set_latency_low_s(latency.low), links.set_latency_high_s(latency.high);
  const Spread core = Rate(samples[LinkRows::kOneCopier], kMessage, latency.median);
  links.set_bytes_per_second_core(core.median);
  links.set_bandwidth_low(core.low), links.set_bandwidth_high(core.high);
  links.set_bytes_per_second_total(Rate(samples[LinkRows::kAllCopy], kMessage * ranks, latency.median).median);
  for (profile::MeasuredCollective& c : CollectivesFrom(samples, LinkRows::kCollective, ranks))
    *links.add_collectives() = std::move(c);
}

}  // namespace twofold::calibrate
