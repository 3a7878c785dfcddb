#include "core/device/ops.h"

namespace twofold::ops {

Op::Op(const Op& other) = default;
Op::Op(Op&& other) noexcept = default;
Op::~Op() = default;
Op& Op::operator=(Op other) noexcept {
  any_ = std::move(other.any_);
  return *this;
}

KernelKey Key(const Op& op) {
  return std::visit([](const auto& o) { return rules::Key(o); }, op.any());
}

Cost CostOf(const Op& op) {
  return std::visit([](const auto& o) { return rules::CostOf(o); }, op.any());
}

void CheckShapes(const Op& op) {
  std::visit([](const auto& o) { rules::CheckShapes(o); }, op.any());
}

Bytes Workspace(const Op& op, DeviceKind kind, int threads) {
  if (kind == DeviceKind::kCuda) return std::visit([](const auto& o) { return rules::CudaWorkspace(o); }, op.any());
  const auto rule = [threads](const auto& o) {
    if constexpr (requires { rules::CpuWorkspace(o, threads); })
      return rules::CpuWorkspace(o, threads);
    else
      return rules::CpuWorkspace(o);
  };
  return std::visit(rule, op.any());
}

}  // namespace twofold::ops
