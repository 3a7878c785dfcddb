// The squared norm of a whole model's gradients, of which every rank has a part: for clipping, and to find gradients that are not
// finite. Each element of the model counts once: a rank leaves out what another one owns (nn::ShardLayout::Range::owned), and the sum goes
// over the ranks that hold shards of what this one has (ParameterLayout::shard_group), of experts over those that have others, and over
// those that share the model (pp x tp).
// Replicas hold the same and take no part. Costs a pass over the gradients, and an element sent in each sum.
#pragma once

#include <vector>

#include "strategies/data_parallel/layout.h"

namespace twofold {

// One rank's; all handed in outlives it.
class GradientNorm {
 public:
  // `model`: the ranks that together have the model once (MeshGroup::kModel), but for experts; those that have different ones
  // (MeshGroup::kEp), or null: each has all.
  GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model, ProcessGroup* experts = nullptr);
  // One element, as optim::SquaredNorm gives it; the same on all ranks of `model`. Collective over it, the holders and the
  // ranks that have different experts.
  Tensor Squared();

 private:
  nn::Context& ctx_;
  ParameterLayout& layout_;
  ProcessGroup& model_;
  ProcessGroup* const experts_;
  // Few and long: the layout's flat gradients between what others own. `owned_experts_`: of parameters that are nn::Replicas::kExperts;
  // empty: this stage has no experts, and so none of those that it would sum with has.
  std::vector<Tensor> owned_, owned_experts_;
};

}  // namespace twofold
