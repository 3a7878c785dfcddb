#include "core/device/device.h"

namespace twofold {

void Device::Launch(Stream& stream, const ops::Op& op) {
  ops::CheckShapes(op);
  const Bytes workspace = ops::Workspace(op, kind(), threads());
  if (workspace.value() == 0) return Run(stream, op, Tensor());
  TWOFOLD_CHECK(&stream == &compute(), "an operation with a workspace runs on the compute stream");
  // Released when the launch returns. Later requests of the same stream may reuse it, in stream order.
  Run(stream, op, NewTensor(Shape{workspace.value()}, DType::kU8, Category::kOther, ops::Key(op).name));
}

void Device::Transfer(Stream& stream, const Tensor& from, const Tensor& to) {
  TWOFOLD_CHECK(from.dtype() == to.dtype(), from.ToString() + " and " + to.ToString() + " differ in type");
  TWOFOLD_CHECK_EQ(from.numel(), to.numel());
  TWOFOLD_CHECK(&stream != &compute(), "transfers need a stream of their own");
  if (from.numel() > 0) Copy(stream, from.Borrowed(), to.Borrowed());
}

}  // namespace twofold
