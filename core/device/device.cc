#include "core/device/device.h"

namespace twofold {

void Device::Launch(Stream& stream, const ops::Op& op) {
  ops::CheckShapes(op);
  const Bytes workspace = ops::Workspace(op, kind(), threads());
  if (workspace.value() == 0) return Run(stream, op, Tensor());
  TWOFOLD_CHECK(&stream == &compute(), "an operation with a workspace runs on the compute stream");
  // Given back when the launch returns: later requests of the same stream may reuse it, in stream order.
  Run(stream, op, NewTensor(Shape{workspace.value()}, DType::kU8, Category::kOther));
}

}  // namespace twofold
