#include "sim/cost/framework_cost_model.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/device/kernel_names.h"
#include "sim/cost/passes.h"

namespace twofold {
namespace {

ops::KernelClass ClassOf(framework::Family::Kind kind) {
  switch (kind) {
    case framework::Family::PRODUCTS: return ops::KernelClass::kProduct;
    case framework::Family::ATTENTION: return ops::KernelClass::kAttention;
    case framework::Family::NORMS: return ops::KernelClass::kNorm;
    case framework::Family::ELEMENT_WISE: return ops::KernelClass::kElement;
    case framework::Family::LOSS: return ops::KernelClass::kLoss;
    case framework::Family::OPTIMIZER: return ops::KernelClass::kOptimizer;
    case framework::Family::OTHER: break;
  }
  return ops::KernelClass::kOther;
}

}  // namespace

FrameworkCostModel::FrameworkCostModel(std::unique_ptr<CostModel> own, const framework::Time& time,
                                       const cluster::Device& device)
    : own_(std::move(own)),
      kernel_s_(device.kernel_us() * 1e-6),
      device_launch_(device.launch_us() * 1e-6),
      separate_accumulation_(time.separate_accumulation()),
      launch_(time.has_launch_us() ? std::optional(Seconds(time.launch_us() * 1e-6)) : std::nullopt),
      parts_side_by_side_(time.tp_overlap().streams() > 1),
      part_launch_(time.tp_overlap().has_launch_us() ? std::optional(Seconds(time.tp_overlap().launch_us() * 1e-6))
                                                     : std::nullopt),
      separate_(time.separate().begin(), time.separate().end()) {
  for (const framework::Kernel& kernel : time.kernels()) {
    if (device.name().starts_with(kernel.device())) kernels_[kernel.name()] = kernel;
  }
  for (const framework::Family& family : time.families()) {
    if (device.name().starts_with(family.device())) families_[ClassOf(family.kind())] = family.factor();
  }
}

double FrameworkCostModel::FamilyFactor(std::string_view kernel) const {
  if (families_.empty()) return 1;
  const ops::KernelRow* const row = ops::FindKernel(kernel);
  const auto found = row == nullptr ? families_.end() : families_.find(row->is);
  return found == families_.end() ? 1 : found->second;
}

Estimate FrameworkCostModel::Sum(const ops::Op& a, const ops::Op& b) {
  const Estimate x = Time(a), y = Time(b);
  const Seconds launch = launch_.value_or(device_launch_);
  return {x.seconds + y.seconds,
          x.low + y.low,
          x.high + y.high,
          x.extrapolated || y.extrapolated,
          x.launch.value_or(launch) + y.launch.value_or(launch),
          SourceOfSum(x, y)};
}

Estimate FrameworkCostModel::OwnTime(const ops::Op& op, const ops::MatMul* part) const {
  return part != nullptr && parts_side_by_side_ ? own_->TimeOfPart(*part) : own_->Time(op);
}

Estimate FrameworkCostModel::One(const ops::Op& op) {
  const std::string_view name = ops::Key(op).name;
  const auto known = kernels_.find(name);
  if (known != kernels_.end() && known->second.factor() == 0) return InNeighboursPass();
  const auto* product = std::get_if<ops::MatMul>(&op.any());
  const ops::MatMul* const part = product != nullptr && product->parts > 1 ? product : nullptr;
  Estimate e = OwnTime(op, part);
  if (launch_.has_value()) e.launch = launch_;
  const double factor = FamilyFactor(name) * (known == kernels_.end() ? 1 : known->second.factor());
  const double least =
      part != nullptr && parts_side_by_side_ ? kernel_s_ / static_cast<double>(part->parts) : kernel_s_;
  const auto scaled = [&](Seconds t) {
    const double own = std::min(least, t.value());
    return Seconds((t.value() - own) * factor + own);
  };
  if (factor != 1) e.seconds = scaled(e.seconds), e.low = scaled(e.low), e.high = scaled(e.high);
  if (known != kernels_.end() && known->second.has_launch_us()) e.launch = Seconds(known->second.launch_us() * 1e-6);
  if (part != nullptr && part_launch_.has_value()) e.launch = part_launch_;
  return e;
}

absl::Status CheckFrameworkKernels(const framework::Time& time) {
  for (const framework::Kernel& kernel : time.kernels()) {
    if (!ops::IsKernel(kernel.name()))
      return InvalidArgument("time.kernels.name: \"", kernel.name(),
                             "\": unknown kernel; use a name from a report, such as matmul_nt");
  }
  return absl::OkStatus();
}

Estimate FrameworkCostModel::Time(const ops::Op& op) {
  if (const std::optional<TwoPasses> passes = Unfused(op);
      passes.has_value() && separate_.contains(ops::Key(passes->joined).name))
    return Sum(passes->main, passes->joined);
  if (const auto* product = std::get_if<ops::MatMul>(&op.any());
      product != nullptr && product->accumulate && separate_accumulation_) {
    ops::MatMul alone = *product;
    alone.accumulate = false;
    return Sum(alone, ops::AddTo{.in = product->out, .out = product->out});
  }
  return One(op);
}

}  // namespace twofold
