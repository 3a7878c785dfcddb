#include "experiments/program/calibrate/table.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "sim/cost/kernel_table.h"
#include "sim/cost/load.h"

namespace twofold::calibrate {
namespace {

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
  return absl::StrFormat("%-22s %-5s %6d %s %10.2f %s  %-18s %5.0f %%\n", kernel.name(), kernel.dtype(),
                         kernel.points_size(), RightAligned(SecondsText(least), 11), best / 1e9,
                         flops ? "GFLOP/s" : "GB/s   ", absl::StrJoin(fastest->dims(), " x "), 100 * spread);
}

}  // namespace

std::string KernelTableText(const profile::Profile& profile) {
  std::string text = absl::StrFormat("%-22s %-5s %6s %11s %18s  %-18s %7s\n", "kernel", "dtype", "points", "least time",
                                     "best rate", "reached at", "spread");
  for (const profile::Kernel& kernel : profile.kernels()) text += KernelLine(kernel);
  return text;
}

std::string LinkTableText(const profile::SharedMemory& links, int ranks) {
  std::string text = absl::StrFormat(
      "shared memory: latency %s (%s to %s), %.2f GB/s moved by one rank (%.2f to %.2f), %.2f GB/s by %d together\n",
      SecondsText(links.latency_s()), SecondsText(links.latency_low_s()), SecondsText(links.latency_high_s()),
      links.bytes_per_second_core() / 1e9, links.bandwidth_low() / 1e9, links.bandwidth_high() / 1e9,
      links.bytes_per_second_total() / 1e9, ranks);
  for (const profile::MeasuredCollective& c : links.collectives()) text += CollectiveTableText(c);
  return text;
}

std::string CollectiveTableText(const profile::MeasuredCollective& collective) {
  std::string text = absl::StrFormat("%-14s", collective.operation());
  for (const profile::CollectivePoint& p : collective.points()) {
    text += StrCat("  ", BytesText(static_cast<double>(p.bytes())), " ", SecondsText(p.seconds()));
  }
  return text + "\n";
}

std::string GpuTableText(const profile::Gpu& gpu) {
  std::string text =
      absl::StrFormat("%d multiprocessors at most at %.0f MHz, %.1f GiB, L2 %.0f MiB; %s\n", gpu.multiprocessors(),
                      gpu.clock_hz() * 1e-6, static_cast<double>(gpu.memory_bytes()) / (1 << 30),
                      static_cast<double>(gpu.l2_bytes()) / (1 << 20), gpu.software());
  for (const auto& [what, timing] :
       {std::pair("host, a launch", &gpu.launch()), std::pair("host, a tensor", &gpu.allocation()),
        std::pair("host, an element back", &gpu.read_back()), std::pair("least of a kernel", &gpu.kernel()),
        std::pair("gap between kernels", &gpu.gap())}) {
    text += absl::StrFormat("%-22s %s (%s to %s)\n", what, SecondsText(timing->seconds()), SecondsText(timing->low()),
                            SecondsText(timing->high()));
  }
  for (const auto& [what, link] :
       {std::pair("copies within", &gpu.within()), std::pair("from the host", &gpu.to_device()),
        std::pair("to the host", &gpu.to_host())}) {
    text += absl::StrFormat("%-22s %.1f GB/s (%.1f to %.1f), %s\n", what, link->bytes_per_second() * 1e-9,
                            link->low() * 1e-9, link->high() * 1e-9, SecondsText(link->latency().seconds()));
  }
  for (const profile::Products& p : gpu.products()) {
    text += absl::StrFormat(
        "products of %-9s at most %.1f TFLOP/s; %d products held out of the fit are predicted with errors of %.1f %% "
        "(median) and %.1f %% (largest) by %s\n",
        p.dtype(), p.flops_per_second() * 1e-12, p.left_out(), 100 * p.median_error(), 100 * p.worst_error(),
        p.used() ? "fitted tiles" : "rates alone");
  }
  for (const profile::MeasuredCollective& c : gpu.collectives()) text += CollectiveTableText(c);
  return text;
}

std::string LoadTableText(const profile::Load& load) {
  if (!load.has_taken()) return "";
  const Range wider = Widened({}, load);
  return absl::StrFormat(
      "load: other work kept %.1f processors busy and delayed measurements by up to %.1f %% of their time; %d "
      "measurement%s repeated, and those that were kept were delayed by up to %.1f %%\n  a fixed kernel took %.2f to "
      "%.2f of its median time throughout; intervals reach at least from %.2f to %.2f of a predicted time\n\n",
      load.others(), 100 * load.taken(), load.repeated(), load.repeated() == 1 ? " was" : "s were", 100 * load.kept(),
      load.fixed_low(), load.fixed_high(), wider.low, wider.high);
}

std::string TrainingTableText(const profile::Training& training) {
  std::vector<const profile::KernelFactor*> kernels;
  for (const profile::KernelFactor& k : training.kernels()) kernels.push_back(&k);
  const auto off = [&](const profile::KernelFactor* k) { return std::abs(std::log(k->factor() / training.factor())); };
  std::stable_sort(kernels.begin(), kernels.end(), [&](const auto* a, const auto* b) { return off(a) > off(b); });
  std::string text =
      absl::StrFormat("in training, %s: kernels take %.2f times as long as alone, the host %s before each; ",
                      Counted(training.ranks(), "rank"), training.factor(), SecondsText(training.host_s()));
  if (training.ranks() > 1) {
    text += absl::StrFormat(
        "ranks wait %.1f %% of their time for the slowest, communication occupies a core for %.0f %% of its time; ",
        100 * training.waiting(), 100 * training.core_share());
  }
  text += absl::StrFormat("measured steps lie %+.1f %% to %+.1f %% from the predicted ones\n",
                          100 * (training.low() - 1), 100 * (training.high() - 1));
  constexpr size_t kShown = 6;
  for (size_t i = 0; i < std::min(kShown, kernels.size()); ++i) {
    text += absl::StrFormat("%s%s %.2f", i == 0 ? "  " : ", ", kernels[i]->kernel(), kernels[i]->factor());
    if (kernels[i]->alone_s() > 0) absl::StrAppend(&text, " at ", SecondsText(kernels[i]->alone_s()));
  }
  return text + "\n";
}

}  // namespace twofold::calibrate
