// Optimizer steps and the clipping of gradients. `master` (f32) is empty when the parameter is itself F32 or F64; otherwise
// it leads and the parameter is its rounded copy. grad (acc).
//
// `factor` is one element, F32 or F64: each element of the gradient is multiplied by it as it is read (what clipping and loss
// scaling ask for, without a pass over the gradients). A factor of 1 changes no bit. Empty: 1.
//
// `undecayed` are the elements that weight decay leaves alone, so that a flat piece of several parameters is one operation of
// the whole piece's cost. Null: there are none.
#pragma once

#include <memory>
#include <vector>

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ElementRange { int64_t begin = 0, end = 0; };  // elements [begin, end); end > begin
using ElementRanges = std::shared_ptr<const std::vector<ElementRange>>;  // in ascending order, without overlap

struct SgdStep {
  Tensor param, grad, momentum /*(f32), may be empty*/, master;
  double lr = 0, momentum_factor = 0, weight_decay = 0;
  bool nesterov = false;
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
};
struct AdamStep {  // Kingma and Ba 2015, algorithm 1, bias-corrected; decoupled decay as AdamW
  Tensor param, grad, m /*(f32)*/, v /*(f32)*/, master;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;
  int64_t step = 1;  // from 1
  Tensor factor = {};
  ElementRanges undecayed = nullptr;
};
struct SquaredNorm { Tensor in, out /*(f32)[1]*/; bool accumulate = false; };  // sum of squares
// out = scale * min(1, max_norm / (scale * sqrt(squared_norm) + 1e-6)), (f32)[1] both. `scale` makes true gradients of those
// that were summed up; an infinite max_norm clips nothing.
struct ClipFactor { Tensor squared_norm, out; double max_norm = 1, scale = 1; };

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
