#include "core/device/ops/norm.h"

#include "core/device/ops/column_sums.h"
#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// Adds the cost of a branch that is added before the norm, or of a gradient that bypasses it.
template <class Forward>
Cost WithBranch(Cost cost, const Forward& o) {
  cost.flops += Flops(static_cast<double>(o.branch.numel()));
  return {cost.flops, cost.read + OrZero(o.branch), cost.written + OrZero(o.sum)};
}
template <class Backward>
Cost WithPast(Cost cost, const Backward& o) {
  cost.flops += Flops(static_cast<double>(o.past.numel()));
  return {cost.flops, cost.read + OrZero(o.past), cost.written};
}
template <class Forward>
bool BranchFits(const Forward& o) {
  return o.branch.empty() ? o.sum.empty() : Like(o.x, o.branch) && Like(o.x, o.sum);
}
template <class Backward>
bool PastFits(const Backward& o) {
  return o.past.empty() || Like(o.x, o.past);
}

}  // namespace

KernelKey Key(const LayerNormForward& o) { return ByRows("layer_norm_forward", o.x); }
Cost CostOf(const LayerNormForward& o) { return WithBranch(Streaming(8, o.x.numel(), o.x.bytes(), o.y.bytes()), o); }
void CheckShapes(const LayerNormForward& o) {
  const int64_t c = o.x.dim(-1);
  Expect(Like(o.x, o.y) && o.gamma.numel() == c && o.beta.numel() == c && Wide(o.mean, o.x, Rows(o.x)) &&
             Wide(o.rstd, o.x, Rows(o.x)) && BranchFits(o),
         "layer_norm_forward", {&o.x, &o.gamma, &o.beta, &o.y, &o.mean, &o.rstd, &o.branch, &o.sum});
}

KernelKey Key(const LayerNormBackward& o) { return ByRows("layer_norm_backward", o.x); }
Cost CostOf(const LayerNormBackward& o) {
  return WithPast(Streaming(12, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes()), o);
}
void CheckShapes(const LayerNormBackward& o) {
  Expect(Like(o.x, o.dy) && Like(o.x, o.dx) && o.gamma.numel() == o.x.dim(-1) && Wide(o.mean, o.x, Rows(o.x)) &&
             Wide(o.rstd, o.x, Rows(o.x)) && PastFits(o),
         "layer_norm_backward", {&o.dy, &o.x, &o.gamma, &o.mean, &o.rstd, &o.dx, &o.past});
}

KernelKey Key(const LayerNormWeights& o) { return ByRows("layer_norm_weights", o.x); }
Cost CostOf(const LayerNormWeights& o) {
  return Streaming(5, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dgamma.bytes() + o.dbeta.bytes());
}
void CheckShapes(const LayerNormWeights& o) {
  const int64_t c = o.x.dim(-1);
  Expect(Like(o.x, o.dy) && o.dgamma.numel() == c && o.dbeta.numel() == c && o.dgamma.dtype() == o.dbeta.dtype(),
         "layer_norm_weights", {&o.dy, &o.x, &o.mean, &o.rstd, &o.dgamma, &o.dbeta});
}
Bytes CudaWorkspace(const LayerNormWeights& o) { return ColumnSumsWorkspace(2, o.x); }

KernelKey Key(const RmsNormForward& o) { return ByRows("rms_norm_forward", o.x); }
Cost CostOf(const RmsNormForward& o) { return WithBranch(Streaming(4, o.x.numel(), o.x.bytes(), o.y.bytes()), o); }
void CheckShapes(const RmsNormForward& o) {
  Expect(Like(o.x, o.y) && o.gamma.numel() == o.x.dim(-1) && o.gamma.dtype() == o.x.dtype() &&
             Wide(o.rstd, o.x, Rows(o.x)) && BranchFits(o),
         "rms_norm_forward", {&o.x, &o.gamma, &o.y, &o.rstd, &o.branch, &o.sum});
}

KernelKey Key(const RmsNormBackward& o) { return ByRows("rms_norm_backward", o.x); }
Cost CostOf(const RmsNormBackward& o) {
  return WithPast(Streaming(8, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes()), o);
}
void CheckShapes(const RmsNormBackward& o) {
  Expect(Like(o.x, o.dy) && Like(o.x, o.dx) && o.gamma.numel() == o.x.dim(-1) && o.gamma.dtype() == o.x.dtype() &&
             Wide(o.rstd, o.x, Rows(o.x)) && PastFits(o),
         "rms_norm_backward", {&o.dy, &o.x, &o.gamma, &o.rstd, &o.dx, &o.past});
}

KernelKey Key(const RmsNormWeights& o) { return ByRows("rms_norm_weights", o.x); }
Cost CostOf(const RmsNormWeights& o) { return Streaming(3, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dgamma.bytes()); }
void CheckShapes(const RmsNormWeights& o) {
  Expect(
      Like(o.x, o.dy) && o.dgamma.numel() == o.x.dim(-1) && IsFloat(o.dgamma.dtype()) && Wide(o.rstd, o.x, Rows(o.x)),
      "rms_norm_weights", {&o.dy, &o.x, &o.rstd, &o.dgamma});
}
Bytes CudaWorkspace(const RmsNormWeights& o) { return ColumnSumsWorkspace(1, o.x); }

}  // namespace twofold::ops::rules
