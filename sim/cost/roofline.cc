#include "sim/cost/roofline.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "sim/cost/kernel_table.h"

namespace twofold {

RooflineCostModel::RooflineCostModel(const cluster::Device& device) : device_(device) {
  TWOFOLD_CHECK(device_.memory_bytes_per_second() > 0, "a device's memory has a bandwidth");
  TWOFOLD_CHECK(device_.f32_flops_per_second() > 0, "a device has a peak");
}

double RooflineCostModel::Peak(DType dtype) const {
  double peak = 0;
  if (dtype == DType::kBF16 || dtype == DType::kF16) peak = device_.bf16_flops_per_second();
  if (dtype == DType::kF64) peak = device_.f64_flops_per_second();
  return peak > 0 ? peak : device_.f32_flops_per_second();
}

Estimate RooflineCostModel::Time(const ops::Op& op) {
  const ops::KernelKey key = ops::Key(op);
  const ops::Cost cost = ops::CostOf(op);
  double seconds =
      static_cast<double>(cost.bytes().value()) / (device_.memory_bytes_per_second() * device_.memory_efficiency());
  if (CountsFlops(key.name)) {
    seconds = std::max(seconds, cost.flops.value() / (Peak(key.dtype) * device_.matmul_efficiency()));
  }
  seconds += device_.kernel_us() * 1e-6;
  return {Seconds(seconds), Seconds(seconds * (1 - kDataSheetError)), Seconds(seconds * (1 + kDataSheetError)), false};
}

std::string RooflineCostModel::Describe() const {
  return absl::StrFormat(
      "kernel times: roofline of %s from its data sheet, not measured (%.0f %% of peak flops for matrix products, %.0f "
      "%% of memory bandwidth, %g µs per kernel); interval +-%.0f %% assumed",
      device_.name(), 100 * device_.matmul_efficiency(), 100 * device_.memory_efficiency(), device_.kernel_us(),
      100 * kDataSheetError);
}

}  // namespace twofold
