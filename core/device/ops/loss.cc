#include "core/device/ops/loss.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {

KernelKey Key(const CrossEntropyForward& o) { return ByRows("cross_entropy_forward", o.logits); }
Cost CostOf(const CrossEntropyForward& o) {
  return Streaming(12, o.logits.numel(), o.logits.bytes(), o.losses.bytes() + o.lse.bytes());
}
void CheckShapes(const CrossEntropyForward& o) {
  Expect(o.logits.shape().rank() == 2 && o.targets.numel() == o.logits.dim(0) &&
             OneOf(o.targets, DType::kI32, DType::kU8) && Wide(o.losses, o.logits, o.logits.dim(0)) &&
             Wide(o.lse, o.logits, o.logits.dim(0)),
         "cross_entropy_forward", {&o.logits, &o.targets, &o.losses, &o.lse});
}

KernelKey Key(const CrossEntropyBackward& o) { return ByRows("cross_entropy_backward", o.logits); }
Cost CostOf(const CrossEntropyBackward& o) {
  return Streaming(12, o.logits.numel(), o.logits.bytes(), o.dlogits.bytes());
}
void CheckShapes(const CrossEntropyBackward& o) {
  Expect(o.logits.shape().rank() == 2 && o.targets.numel() == o.logits.dim(0) && Like(o.logits, o.dlogits) &&
             Wide(o.lse, o.logits, o.logits.dim(0)),
         "cross_entropy_backward", {&o.logits, &o.targets, &o.lse, &o.dlogits});
}

KernelKey Key(const Sum& o) { return Flat("sum", o.in); }
Cost CostOf(const Sum& o) { return Streaming(1, o.in.numel(), o.in.bytes(), o.out.bytes()); }
void CheckShapes(const Sum& o) { Expect(o.out.numel() == 1, "sum", {&o.in, &o.out}); }
Bytes CudaWorkspace(const Sum& o) { return PartialSums(o.in); }

KernelKey Key(const CountCorrect& o) { return ByRows("count_correct", o.logits); }
Cost CostOf(const CountCorrect& o) {
  return Streaming(1, o.logits.numel(), o.logits.bytes() + o.targets.bytes(), o.out.bytes());
}
void CheckShapes(const CountCorrect& o) {
  Expect(o.logits.shape().rank() == 2 && o.targets.numel() == o.logits.dim(0) &&
             OneOf(o.targets, DType::kI32, DType::kU8) && Wide(o.out, o.logits, 1),
         "count_correct", {&o.logits, &o.targets, &o.out});
}
Bytes CudaWorkspace(const CountCorrect& o) { return Bytes(o.logits.dim(0)); }  // per row: whether it is correct

}  // namespace twofold::ops::rules
