// The squared norm of the gradients of a whole model that is spread over ranks, for gradient clipping and to detect
// non-finite gradients. Each element of the model counts once: a rank leaves out elements that another rank owns
// (nn::ShardLayout::Part::owned). The local sums are added over the ranks that hold shards of the same parameters
// (ParameterLayout::shard_group), for experts also over the ranks with different experts, and then over the ranks that
// share the model (pp x tp). Replicas hold the same gradients and take no part. Costs one pass over the gradients, and
// one element sent in each sum.
#pragma once

#include <vector>

#include "strategies/data_parallel/layout.h"

namespace twofold {

// One object per rank. All arguments must outlive it.
class GradientNorm {
 public:
  // `model`: the ranks that together hold the model once, apart from experts (MeshGroup::kModel). `experts`: the ranks
  // with different experts (MeshGroup::kEp); null if every rank holds all experts.
  GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model, ProcessGroup* experts = nullptr);
  // One element, as optim::SquaredNorm returns it; the same on all ranks of `model`. Collective over `model`, the
  // layout's shard groups and `experts`.
  Tensor Squared();
  // Tells ranks apart whose shards take other launches here (ProcessGroup::RanksDiffer; `briefly`: RanksDifferBriefly).
  // For trainings that need norms. `stands_for_others`: this rank does so for ranks that own other elements.
  void TellShardsApart(bool stands_for_others, bool briefly);
  // Whether they differ only briefly (RanksDifferBriefly). `sharers`: how many ranks share the data. Where gradients
  // are in host memory and each of several groups shards them (HYBRID_SHARD), they are told apart: as one, a step of
  // 70B came out 0.1 % too short, for a reason that is not known.
  bool DiffersBriefly(int sharers) const;

 private:
  bool IsExpert(const nn::Parameter& p) const { return experts_ != nullptr && p.replicas() == kExpertsTag; }
  struct Others {
    size_t stretches = 0;  // that a rank may own, at most
    int64_t shared = 0;    // elements that it may not own, at most
  };
  void Consider(const std::vector<optim::SlicePart>& parts, Others& most) const;
  void StandFor(const std::map<size_t, Others>& others, const Tensor& any);

  nn::Context& ctx_;
  ParameterLayout& layout_;
  ProcessGroup& model_;
  ProcessGroup* const experts_;
  // The stretches of the layout's flat gradients that no other rank owns: few and long. `owned_experts_` holds those of
  // parameters with the replicas kExpertsTag. It is empty if this stage has no experts; the ranks of its groups then
  // have none either.
  std::vector<Tensor> owned_, owned_experts_;
  // On ranks that stand for others: what those may take longer for.
  std::vector<Tensor> others_;
};

}  // namespace twofold
