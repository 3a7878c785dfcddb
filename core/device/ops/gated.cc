#include "core/device/ops/gated.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

bool HalfOf(const Tensor& y, const Tensor& x) {
  return x.dim(-1) == 2 * y.dim(-1) && x.numel() == 2 * y.numel() && x.dtype() == y.dtype();
}

}  // namespace

KernelKey Key(const SwiGluForward& o) { return ByRows("swiglu_forward", o.y); }
Cost CostOf(const SwiGluForward& o) { return Streaming(12, o.y.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const SwiGluForward& o) { Expect(HalfOf(o.y, o.x), "swiglu_forward", {&o.x, &o.y}); }

KernelKey Key(const SwiGluBackward& o) { return ByRows("swiglu_backward", o.dy); }
Cost CostOf(const SwiGluBackward& o) { return Streaming(18, o.dy.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes()); }
void CheckShapes(const SwiGluBackward& o) {
  Expect(HalfOf(o.dy, o.x) && Like(o.x, o.dx), "swiglu_backward", {&o.x, &o.dy, &o.dx});
}

}  // namespace twofold::ops::rules
