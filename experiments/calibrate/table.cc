#include "experiments/calibrate/table.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/calibrate/measure_links.h"
#include "experiments/calibrate/profile_from.h"
#include "sim/cost/kernel_table.h"

namespace twofold::calibrate {
namespace {

std::string Time(double s) {
  if (s < 1e-3) return absl::StrFormat("%.2f us", s * 1e6);
  return absl::StrFormat("%.2f ms", s * 1e3);
}

std::string KernelLine(const profile::Kernel& kernel) {
  const bool flops = CountsFlops(kernel.name());
  const profile::Point* fastest = &kernel.points(0);
  double best = 0, spread = 0, least = kernel.points(0).seconds();
  for (const profile::Point& p : kernel.points()) {
    const double rate = (flops ? p.flops() : p.bytes()) / p.seconds();
    if (rate > best) best = rate, fastest = &p;
    least = std::min(least, p.seconds());
    spread += (p.high() - p.low()) / p.seconds() / kernel.points_size();
  }
  return absl::StrFormat("%-22s %-5s %6d %11s %10.2f %s  %-18s %5.0f %%\n", kernel.name(), kernel.dtype(),
                         kernel.points_size(), Time(least), best / 1e9, flops ? "GFLOP/s" : "GB/s   ",
                         absl::StrJoin(fastest->dims(), " x "), 100 * spread);
}

std::string CollectiveLine(const char* name, const profile::Profile& profile, int ranks, Bytes moved,
                           const std::vector<double>& samples) {
  const double predicted = PredictCollective(profile.shared_memory(), ranks, moved), measured = SpreadOf(samples).median;
  return absl::StrFormat("%-12s %8.0f KiB %12s %12s %+7.0f %%\n", name, static_cast<double>(moved.value()) / 1024,
                         Time(predicted), Time(measured), 100 * (predicted / measured - 1));
}

}  // namespace

std::string KernelTableText(const profile::Profile& profile) {
  std::string text = absl::StrFormat("%-22s %-5s %6s %11s %18s  %-18s %7s\n", "kernel", "dtype", "points", "least time",
                                     "best rate", "reached at", "spread");
  for (const profile::Kernel& kernel : profile.kernels()) text += KernelLine(kernel);
  return text;
}

std::string LinkTableText(const profile::Profile& profile, const Samples& samples, int ranks) {
  const profile::SharedMemory& links = profile.shared_memory();
  std::string text = absl::StrFormat(
      "shared memory: latency %s (%s to %s), %.2f GB/s moved by one rank (%.2f to %.2f), %.2f GB/s by %d together\n",
      Time(links.latency_s()), Time(links.latency_low_s()), Time(links.latency_high_s()),
      links.bytes_per_second_core() / 1e9, links.bandwidth_low() / 1e9, links.bandwidth_high() / 1e9,
      links.bytes_per_second_total() / 1e9, ranks);
  text += absl::StrFormat("%-12s %12s %12s %12s %9s\n", "check", "size", "predicted", "measured", "error");
  for (size_t i = 0; i < std::size(kCheckSizes); ++i) {
    text += CollectiveLine("all_reduce", profile, ranks, kCheckSizes[i], samples[LinkRows::kAllReduce + i]);
  }
  for (size_t i = 0; i < std::size(kCheckSizes); ++i) {
    text += CollectiveLine("all_gather", profile, ranks, kCheckSizes[i], samples[LinkRows::kAllGather + i]);
  }
  return text;
}

}  // namespace twofold::calibrate
