#include "core/device/ops/split_loss.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

bool Splits(const Tensor& logits, int64_t first, int64_t classes) {
  return logits.shape().rank() == 2 && 0 <= first && 0 <= classes && classes <= logits.dim(1);
}
bool Targets(const Tensor& targets, const Tensor& logits) {
  return targets.numel() == logits.dim(0) && OneOf(targets, DType::kI32, DType::kU8);
}

}  // namespace

KernelKey Key(const SplitMax& o) { return ByRows("split_max", o.logits); }
Cost CostOf(const SplitMax& o) { return Streaming(1, o.logits.numel(), o.logits.bytes(), o.largest.bytes()); }
void CheckShapes(const SplitMax& o) {
  Expect(Splits(o.logits, 0, o.classes) && Wide(o.largest, o.logits, o.logits.dim(0)), "split_max",
         {&o.logits, &o.largest});
}

KernelKey Key(const SplitSums& o) { return ByRows("split_sums", o.logits); }
Cost CostOf(const SplitSums& o) {
  return Streaming(11, o.logits.numel(), o.logits.bytes() + o.largest.bytes(), o.sums.bytes());
}
void CheckShapes(const SplitSums& o) {
  const int64_t rows = o.logits.dim(0);
  Expect(Splits(o.logits, o.first, o.classes) && Targets(o.targets, o.logits) && Wide(o.largest, o.logits, rows) &&
             (Wide(o.sums, o.logits, 2 * rows) || Wide(o.sums, o.logits, 3 * rows)),
         "split_sums", {&o.logits, &o.targets, &o.largest, &o.sums});
}

KernelKey Key(const SplitLosses& o) { return Flat("split_losses", o.losses); }
Cost CostOf(const SplitLosses& o) {
  return Streaming(12, o.losses.numel(), o.largest.bytes() + o.sums.bytes(), o.losses.bytes() + o.lse.bytes());
}
void CheckShapes(const SplitLosses& o) {
  const int64_t rows = o.largest.numel();
  Expect(Wide(o.sums, o.largest, 2 * rows) && Wide(o.losses, o.largest, rows) && Wide(o.lse, o.largest, rows),
         "split_losses", {&o.largest, &o.sums, &o.losses, &o.lse});
}

KernelKey Key(const SplitBackward& o) { return ByRows("split_backward", o.logits); }
Cost CostOf(const SplitBackward& o) { return Streaming(12, o.logits.numel(), o.logits.bytes(), o.dlogits.bytes()); }
void CheckShapes(const SplitBackward& o) {
  Expect(Splits(o.logits, o.first, o.classes) && Targets(o.targets, o.logits) && Like(o.logits, o.dlogits) &&
             Wide(o.lse, o.logits, o.logits.dim(0)),
         "split_backward", {&o.logits, &o.targets, &o.lse, &o.dlogits});
}

KernelKey Key(const SplitCorrect& o) { return Flat("split_correct", o.sums); }
Cost CostOf(const SplitCorrect& o) { return Streaming(1, o.sums.numel(), o.sums.bytes(), o.out.bytes()); }
void CheckShapes(const SplitCorrect& o) {
  Expect(o.sums.numel() % 3 == 0 && Wide(o.out, o.sums, 1), "split_correct", {&o.sums, &o.out});
}

}  // namespace twofold::ops::rules
