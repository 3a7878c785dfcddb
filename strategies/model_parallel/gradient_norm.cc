#include "strategies/model_parallel/gradient_norm.h"

#include <algorithm>
#include <map>

#include "core/optim/clip.h"
#include "strategies/model_parallel/slices.h"

namespace twofold {
namespace {

Address EndOf(const Tensor& t) { return t.address() + static_cast<Address>(t.bytes().value()); }

// The stretches of the layout's gradients that this rank owns, of parameters with these replicas (or with any). At
// least one tensor, which may have no elements. Padding may be included, since it is zero.
std::vector<Tensor> OwnedGradients(ParameterLayout& layout, bool any_replicas, nn::Replicas replicas) {
  std::map<Address, Address> others;  // begin to end of the stretches to leave out
  ForSliceRanges(layout, [&](const SliceRange& range) {
    const bool padding = range.run.whole < 0 && range.parameter.shard_layout().dim == 0;
    const bool wanted = any_replicas || range.parameter.replicas() == replicas;
    if ((range.run.owned && wanted) || padding || range.run.count == 0) return;
    const Tensor gradient = range.slice.gradient.Flat().Slice(range.offset, range.run.count);
    others[gradient.address()] = EndOf(gradient);
  });
  std::vector<Tensor> owned;
  for (const Tensor& flat : layout.Gradients()) {
    const Tensor all = flat.Flat();
    const auto size = static_cast<Address>(ElementSize(flat.dtype()));
    Address at = all.address();
    const auto keep_until = [&](Address end) {
      if (at < end)
        owned.push_back(
            all.Slice(static_cast<int64_t>((at - all.address()) / size), static_cast<int64_t>((end - at) / size)));
    };
    for (auto other = others.lower_bound(at); other != others.end() && other->first < EndOf(all); ++other) {
      keep_until(other->first);
      at = other->second;
    }
    keep_until(EndOf(all));
  }
  if (owned.empty()) owned.push_back(layout.Gradients().at(0).Flat().Slice(0, 0));  // gives an empty sum its type
  return owned;
}

}  // namespace

GradientNorm::GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model, ProcessGroup* experts)
    : ctx_(ctx),
      layout_(layout),
      model_(model),
      experts_(experts != nullptr && experts->size() > 1 ? experts : nullptr) {
  owned_ = OwnedGradients(layout, experts_ == nullptr, nn::Replicas::kAll);
  if (experts_ == nullptr) return;
  const std::vector<nn::Parameter*> parameters = layout.Parameters();
  const auto is_experts = [](const nn::Parameter* p) { return p->replicas() == nn::Replicas::kExperts; };
  if (std::any_of(parameters.begin(), parameters.end(), is_experts))
    owned_experts_ = OwnedGradients(layout, false, nn::Replicas::kExperts);
}

Tensor GradientNorm::Squared() {
  const auto sum = [this](Tensor& squares, ProcessGroup* group) {
    if (group != nullptr) group->AllReduce(squares).WaitOn(ctx_.stream);
  };
  Tensor of_experts;
  if (!owned_experts_.empty()) {
    of_experts = optim::SquaredNorm(ctx_, owned_experts_, [&](Tensor& squares) {
      sum(squares, layout_.shard_group(nn::Replicas::kExperts));
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
