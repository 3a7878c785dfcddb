#include "sim/cost/gpu_cost_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/device/kernel_names.h"
#include "sim/cost/kernel_table.h"
#include "sim/cost/passes.h"

namespace twofold {
namespace {

constexpr int64_t kAlignedRows = 16;  // bytes of rows
constexpr double kLeastLeft = 0.25;   // of a device, beside communication

TiledProducts ProductsOf(const cluster::Kernels& kernels) {
  TiledProducts products{.tiles = {},
                         .multiprocessors = kernels.multiprocessors(),
                         .tile_depth = kernels.tile_depth(),
                         .most_splits = kernels.most_splits()};
  for (const cluster::Kernels::Tile& t : kernels.tiles())
    products.tiles.push_back({t.rows(), t.columns(), t.efficiency()});
  return products;
}

}  // namespace

GpuCostModel::GpuCostModel(const cluster::Device& device, Fp8Layouts fp8)
    : device_(device),
      fp8_(fp8),
      memory_(device.memory_bytes_per_second() * device.memory_efficiency()),
      products_(ProductsOf(device.kernels())) {
  TWOFOLD_CHECK((device.has_kernels() || device.has_laws()) && CheckKernels(device).ok(),
                "a device says how kernels fill it");
  TWOFOLD_CHECK(memory_ > 0, "a device's memory has a bandwidth");
  TWOFOLD_CHECK(device.f32_flops_per_second() > 0, "a device has a peak");
}

double GpuCostModel::Aligned(const ops::MatMul& product) const {
  const int64_t bytes = RowAlignment(product.a.dim(1), product.b.dim(1), ElementSize(product.a.dtype()));
  for (const cluster::Kernels::Alignment& alignment : device_.kernels().alignments()) {
    if (bytes == alignment.bytes()) return alignment.efficiency();
  }
  return 1;
}

const cluster::Kernels::Kernel& GpuCostModel::Of(std::string_view kernel) const {
  for (const cluster::Kernels::Kernel& k : device_.kernels().kernels()) {
    if (k.name() == kernel) return k;
  }
  return cluster::Kernels::Kernel::default_instance();
}

bool GpuCostModel::Names(std::string_view kernel) const {
  return &Of(kernel) != &cluster::Kernels::Kernel::default_instance();
}

double GpuCostModel::Tiled(const ProductShape& p, double peak, int64_t element_size, double aligned) const {
  const double seconds = products_.Seconds(p, peak * device_.matmul_efficiency() * aligned, memory_, element_size);
  return std::max(seconds, p.flops() / (peak * device_.kernels().sustained_efficiency()));
}

Estimate GpuCostModel::TimeOf(const ops::Op& op, int64_t parts) {
  const std::optional<TwoPasses> passes = Unfused(op);
  if (passes.has_value() && Names(ops::Key(passes->joined).name)) {
    const Estimate a = TimeOf(passes->main, parts), b = Time(passes->joined);
    const Seconds launch(device_.launch_us() * 1e-6);
    return {a.seconds + b.seconds,
            a.low + b.low,
            a.high + b.high,
            false,
            a.launch.value_or(launch) + b.launch.value_or(launch),
            SourceOfSum(a, b)};
  }
  const ops::KernelKey key = ops::Key(op);
  const ops::Cost cost = ops::CostOf(op);
  const cluster::Kernels::Kernel& kernel = Of(key.name);
  if (kernel.factor() == 0) return InNeighboursPass();
  double seconds = static_cast<double>(cost.bytes().value()) / memory_;
  double products = 0, addition = 0, kernel_s = device_.kernel_us() * 1e-6, error = device_.kernels().error();
  Source source = Source::kDataSheet;
  const auto* product = std::get_if<ops::MatMul>(&op.any());
  if (product != nullptr && product->accumulate && device_.kernels().separate_accumulation()) {
    seconds -= static_cast<double>(product->out.bytes().value()) / memory_;
    addition = static_cast<double>(3 * product->out.bytes().value()) / memory_ + device_.kernel_us() * 1e-6;
  }
  if (const std::optional<LawTime> law = TimeByLaw(device_, op, cache_, parts)) {
    seconds = law->seconds, error = law->error, kernel_s = 0;
    source = law->fitted ? Source::kLaw : Source::kExtrapolated;
  } else if (product != nullptr) {
    products = Tiled({1, key.dims[0], key.dims[1], key.dims[2]}, PeakOf(device_, key.dtype), ElementSize(key.dtype),
                     Aligned(*product));
  } else if (const auto* batched = std::get_if<ops::BatchedMatMul>(&op.any())) {
    products = Tiled({batched->batches * batched->heads, batched->m, batched->n, batched->k},
                     PeakOf(device_, key.dtype), ElementSize(key.dtype), 1);
  } else if (CountsFlops(key.name)) {
    products = cost.flops.value() / (PeakOf(device_, key.dtype) * LargeEfficiency());
  }
  const Fp8CopyTime copies = product != nullptr ? CopiesBefore(*product, device_, fp8_) : Fp8CopyTime();
  if (const auto* rounding = std::get_if<ops::QuantiseFp8>(&op.any())) seconds += MoreToRound(*rounding, device_, fp8_);
  seconds = std::max(seconds, products) * kernel.factor() + kernel_s + addition + copies.seconds;
  Estimate e{Seconds(seconds), Seconds(seconds * (1 - error)), Seconds(seconds * (1 + error))};
  e.source = source;
  if (kernel.has_launch_us()) e.launch = Seconds(kernel.launch_us() * 1e-6);
  if (copies.kernels > 0) {
    const double each = device_.launch_us() * 1e-6;
    e.launch = e.launch.value_or(Seconds(each)) + Seconds(copies.kernels * each);
  }
  return e;
}

GpuCostModel::Rest& GpuCostModel::Left(double multiprocessors, double share_of_memory) {
  const auto [known, is_new] = left_.try_emplace({multiprocessors, share_of_memory});
  if (!is_new) return known->second;
  cluster::Device& device = known->second.device = device_;
  const double share = multiprocessors / static_cast<double>(device_.laws().multiprocessors());
  device.mutable_laws()->set_multiprocessors(static_cast<int64_t>(multiprocessors));
  for (cluster::ProductLaw& law : *device.mutable_laws()->mutable_products()) {
    law.set_tflops(law.tflops() * share);
    law.set_memory_tbytes_per_second(law.memory_tbytes_per_second() * share_of_memory);
  }
  for (cluster::AttentionLaw& law : *device.mutable_laws()->mutable_attention()) {
    law.set_tflops(law.tflops() * share);
    law.set_memory_tbytes_per_second(law.memory_tbytes_per_second() * share_of_memory);
  }
  return known->second;
}

double GpuCostModel::Slowdown(const ops::Op& op, const BesideIt& takes) {
  const auto all =
      static_cast<double>(device_.has_laws() ? device_.laws().multiprocessors() : device_.kernels().multiprocessors());
  const double multiprocessors = std::max(std::ceil(all * kLeastLeft), all - std::floor(takes.multiprocessors));
  // In steps of a hundredth, so that a few devices serve all sizes of communication.
  const double memory = std::max(kLeastLeft, 1 - std::round(100 * takes.bytes_per_second / memory_) / 100);
  if (const std::optional<LawTime> alone = TimeByLaw(device_, op, cache_)) {
    Rest& rest = Left(multiprocessors, memory);
    const std::optional<LawTime> beside = TimeByLaw(rest.device, op, rest.cache);
    return std::max(1.0, beside->seconds / alone->seconds);
  }
  return CountsFlops(ops::Key(op).name) ? all / multiprocessors : 1 / memory;
}

double GpuCostModel::LargeEfficiency() const {
  const double lasting = LastingShare(device_);
  if (lasting > 0) return lasting;
  return std::min(device_.matmul_efficiency(), device_.kernels().sustained_efficiency());
}

std::string GpuCostModel::Describe() const {
  if (device_.has_laws()) {
    return absl::StrFormat(
        "kernel times: %s, matrix products and attention by laws with fitted constants (long products sustain %.0f %% "
        "of peak), other kernels at %.0f %% of memory bandwidth; %g µs per kernel, %g µs of host time per launch; "
        "intervals from the laws' errors on shapes left out of the fit: %s",
        device_.name(), 100 * LargeEfficiency(), 100 * device_.memory_efficiency(), device_.kernel_us(),
        device_.launch_us(), device_.source());
  }
  return absl::StrFormat(
      "kernel times: %s, from a model of how kernels fill its %d multiprocessors (matrix products: %.0f %% of peak "
      "with the best of %d tiles, %.0f %% sustained; %.0f %% of memory bandwidth; %g µs per kernel, %g µs of host time "
      "per launch); interval +-%.0f %% from the cluster's file",
      device_.name(), device_.kernels().multiprocessors(), 100 * device_.matmul_efficiency(),
      device_.kernels().tiles_size(), 100 * LargeEfficiency(), 100 * device_.memory_efficiency(), device_.kernel_us(),
      device_.launch_us(), 100 * device_.kernels().error());
}

absl::Status CheckKernels(const cluster::Device& device) {
  if (!device.has_kernels()) return absl::OkStatus();
  const cluster::Kernels& k = device.kernels();
  const auto wrong = [](auto... parts) { return InvalidArgument(parts...); };
  const bool tiled = !device.has_laws();
  if (tiled && k.multiprocessors() < 1) return wrong("multiprocessors: ", k.multiprocessors(), ": must be 1 or more");
  if (tiled && k.tiles().empty()) return wrong("tiles: missing; matrix products need at least one");
  for (const cluster::Kernels::Tile& t : k.tiles()) {
    if (t.rows() < 1 || t.columns() < 1 || !(t.efficiency() > 0)) {
      return wrong("tiles: ", t.rows(), " x ", t.columns(), " with efficiency ", t.efficiency(),
                   ": rows and columns must be 1 or more, efficiency greater than 0");
    }
  }
  if (!(k.tile_depth() >= 0)) return wrong("tile_depth: ", k.tile_depth(), ": must not be negative");
  if (k.most_splits() < 1) return wrong("most_splits: ", k.most_splits(), ": must be 1 or more");
  if (!(k.sustained_efficiency() > 0))
    return wrong("sustained_efficiency: ", k.sustained_efficiency(), ": must be greater than 0");
  std::set<int64_t> alignments;
  for (const cluster::Kernels::Alignment& a : k.alignments()) {
    if (a.bytes() < 1 || a.bytes() >= kAlignedRows || kAlignedRows % a.bytes() != 0) {
      return wrong("alignments.bytes: ", a.bytes(), ": must be 1, 2, 4 or 8; rows aligned to ", kAlignedRows,
                   " bytes count as fully aligned");
    }
    if (!alignments.insert(a.bytes()).second) return wrong("alignments.bytes: ", a.bytes(), ": appears twice");
    if (!(a.efficiency() > 0))
      return wrong("alignments.efficiency: ", a.efficiency(), " for ", a.bytes(), " bytes: must be greater than 0");
  }
  std::set<std::string_view> named;
  for (const cluster::Kernels::Kernel& one : k.kernels()) {
    if (!ops::IsKernel(one.name()))
      return wrong("kernels.name: \"", one.name(), "\": unknown kernel; use a name from a report, such as matmul_nt");
    if (!named.insert(one.name()).second) return wrong("kernels.name: \"", one.name(), "\": appears twice");
    if (!(one.factor() >= 0))
      return wrong("kernels.factor: ", one.factor(), " for ", one.name(), ": must not be negative");
    if (!(one.launch_us() >= 0))
      return wrong("kernels.launch_us: ", one.launch_us(), " for ", one.name(), ": must not be negative");
  }
  if (!(k.error() >= 0 && k.error() < 1)) return wrong("error: ", k.error(), ": must be in [0, 1)");
  return absl::OkStatus();
}

}  // namespace twofold
