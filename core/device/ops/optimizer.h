// Optimizer steps and the clipping of gradients. `master` (f32) is empty when the parameter is itself F32 or F64; otherwise
// it leads and the parameter is its rounded copy. grad (acc).
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct SgdStep {
  Tensor param, grad, momentum /*(f32), may be empty*/, master;
  double lr = 0, momentum_factor = 0, weight_decay = 0;
  bool nesterov = false;
};
struct AdamStep {  // Kingma and Ba 2015, algorithm 1, bias-corrected; decoupled decay as AdamW
  Tensor param, grad, m /*(f32)*/, v /*(f32)*/, master;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;
  int64_t step = 1;  // from 1
};
struct SquaredNorm { Tensor in, out /*(f32)[1]*/; bool accumulate = false; };  // sum of squares
struct ClipFactor { Tensor squared_norm, out; double max_norm = 1; };  // out = min(1, max_norm / (sqrt(sq) + 1e-6)), (f32)[1] both

namespace rules {
KernelKey Key(const SgdStep&);
Cost CostOf(const SgdStep&);
void CheckShapes(const SgdStep&);
KernelKey Key(const AdamStep&);
Cost CostOf(const AdamStep&);
void CheckShapes(const AdamStep&);
KernelKey Key(const SquaredNorm&);
Cost CostOf(const SquaredNorm&);
void CheckShapes(const SquaredNorm&);
KernelKey Key(const ClipFactor&);
Cost CostOf(const ClipFactor&);
void CheckShapes(const ClipFactor&);
}  // namespace rules

}  // namespace twofold::ops
