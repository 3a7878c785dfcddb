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

Bytes Workspace(const Op& op, DeviceKind kind, int /*threads*/) {
  if (kind != DeviceKind::kCpu) return Bytes(0);
  return std::visit([](const auto& o) { return rules::CpuWorkspace(o); }, op);
}

}  // namespace twofold::ops
