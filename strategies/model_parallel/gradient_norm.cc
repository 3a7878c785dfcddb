#include "strategies/model_parallel/gradient_norm.h"

#include <algorithm>

#include "absl/functional/function_ref.h"
#include "core/optim/clip.h"

namespace twofold {
namespace {

// The stretches of the layout's gradients that this rank owns, of the parameters that `wanted` selects. At least one
// tensor, which may have no elements. Padding may be included, since it is zero.
std::vector<Tensor> OwnedGradients(const ParameterLayout& layout,
                                   absl::FunctionRef<bool(const nn::Parameter&)> wanted) {
  const std::vector<FlatGradient> gradients = layout.Gradients();
  std::vector<Tensor> owned;
  for (const FlatGradient& flat : gradients) {
    const Tensor all = flat.gradient.Flat();
    int64_t at = 0;  // everything before it is in `owned` or left out
    const auto keep_until = [&](int64_t end) {
      if (at < end) owned.push_back(all.Slice(at, end - at));
    };
    optim::ForStretches(flat.parts, [&](int64_t offset, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
      if (stretch.part.padding || (stretch.part.owned && wanted(p))) return;
      keep_until(offset);
      at = offset + stretch.where.count;
    });
    keep_until(all.numel());
  }
  if (owned.empty()) owned.push_back(gradients.at(0).gradient.Flat().Slice(0, 0));  // gives an empty sum its type
  return owned;
}

}  // namespace

GradientNorm::GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model, ProcessGroup* experts)
    : ctx_(ctx),
      layout_(layout),
      model_(model),
      experts_(experts != nullptr && experts->size() > 1 ? experts : nullptr) {
  const auto is_expert = [this](const nn::Parameter& p) { return experts_ != nullptr && p.replicas() == kExpertsTag; };
  owned_ = OwnedGradients(layout, [&](const nn::Parameter& p) { return !is_expert(p); });
  const std::vector<nn::Parameter*> parameters = layout.Parameters();
  if (std::any_of(parameters.begin(), parameters.end(), [&](const nn::Parameter* p) { return is_expert(*p); }))
    owned_experts_ = OwnedGradients(layout, is_expert);
}

Tensor GradientNorm::Squared() {
  const auto sum = [this](Tensor& squares, ProcessGroup* group) {
    if (group != nullptr) group->AllReduce(squares).WaitOn(ctx_.stream);
  };
  Tensor of_experts;
  if (!owned_experts_.empty()) {
    of_experts = optim::SquaredNorm(ctx_, owned_experts_, [&](Tensor& squares) {
      sum(squares, layout_.shard_group(kExpertsTag));
      sum(squares, experts_);
    });
  }
  return optim::SquaredNorm(ctx_, owned_, [&](Tensor& squares) {
    sum(squares, layout_.shard_group());
    if (!of_experts.empty()) ctx_.Launch(ops::AddTo{.in = of_experts, .out = squares});
    model_.AllReduce(squares).WaitOn(ctx_.stream);
  });
}

}  // namespace twofold
