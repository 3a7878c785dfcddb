#include "sim/cost/framework_cost_model.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/device/kernel_names.h"
#include "sim/cost/passes.h"

namespace twofold {

FrameworkCostModel::FrameworkCostModel(std::unique_ptr<CostModel> own, const framework::Time& time,
                                       const cluster::Device& device)
    : own_(std::move(own)),
      kernel_s_(device.kernel_us() * 1e-6),
      device_launch_(device.launch_us() * 1e-6),
      separate_accumulation_(time.separate_accumulation()),
      launch_(time.has_launch_us() ? std::optional(Seconds(time.launch_us() * 1e-6)) : std::nullopt),
      separate_(time.separate().begin(), time.separate().end()) {
  for (const framework::Kernel& kernel : time.kernels()) {
    if (device.name().starts_with(kernel.device())) kernels_[kernel.name()] = kernel;
  }
}

Estimate FrameworkCostModel::Sum(const ops::Op& a, const ops::Op& b) {
  const Estimate x = Time(a), y = Time(b);
  const Seconds launch = launch_.value_or(device_launch_);
  return {x.seconds + y.seconds, x.low + y.low, x.high + y.high, x.extrapolated || y.extrapolated,
          x.launch.value_or(launch) + y.launch.value_or(launch)};
}

Estimate FrameworkCostModel::One(const ops::Op& op) {
  const auto known = kernels_.find(ops::Key(op).name);
  if (known != kernels_.end() && known->second.factor() == 0) return InNeighboursPass();
  Estimate e = own_->Time(op);
  if (launch_.has_value()) e.launch = launch_;
  if (known == kernels_.end()) return e;
  const framework::Kernel& kernel = known->second;
  const auto scaled = [&](Seconds t) {
    const double own = std::min(kernel_s_, t.value());
    return Seconds((t.value() - own) * kernel.factor() + own);
  };
  e.seconds = scaled(e.seconds), e.low = scaled(e.low), e.high = scaled(e.high);
  if (kernel.has_launch_us()) e.launch = Seconds(kernel.launch_us() * 1e-6);
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
