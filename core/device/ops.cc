#include "core/device/ops.h"

namespace twofold::ops {

KernelKey Key(const Op& op) {
  return std::visit([](const auto& o) { return rules::Key(o); }, op);
}

Cost CostOf(const Op& op) {
  return std::visit([](const auto& o) { return rules::CostOf(o); }, op);
}

void CheckShapes(const Op& op) {
  std::visit([](const auto& o) { rules::CheckShapes(o); }, op);
}

Bytes Workspace(const Op& op, DeviceKind kind, int threads) {
  if (kind != DeviceKind::kCpu) return Bytes(0);
  const auto rule = [threads](const auto& o) {
    if constexpr (requires { rules::CpuWorkspace(o, threads); })
      return rules::CpuWorkspace(o, threads);
    else
      return rules::CpuWorkspace(o);
  };
  return std::visit(rule, op);
}

}  // namespace twofold::ops
