// The squared norm of a whole model's gradients, of which every rank has a part: for clipping, and to find gradients that are not
// finite. Each element of the model counts once: a rank leaves out what another one owns (nn::Cut::Range::owned), and the sum goes
// over the ranks that hold shards of what this one has (ParameterLayout::holders) and over those that share the model (pp x tp).
// Replicas hold the same and take no part. Costs a pass over the gradients, and an element sent in either sum.
#pragma once

#include <vector>

#include "strategies/data_parallel/layout.h"

namespace twofold {

// One rank's; all handed in outlives it.
class GradientNorm {
 public:
  // `model`: the ranks that together have the model once (Along::kModel).
  GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model);
  // One element, as optim::SquaredNorm gives it; the same on all ranks of `model`. Collective over it and the holders.
  Tensor Squared();

 private:
  nn::Context& ctx_;
  ParameterLayout& layout_;
  ProcessGroup& model_;
  std::vector<Tensor> owned_;  // few and long: the layout's flat gradients between what others own
};

}  // namespace twofold
