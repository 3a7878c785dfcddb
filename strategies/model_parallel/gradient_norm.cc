#include "strategies/model_parallel/gradient_norm.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/functional/function_ref.h"
#include "core/base/strings.h"
#include "core/optim/clip.h"

namespace twofold {
namespace {

using Wanted = absl::FunctionRef<bool(const nn::Parameter&)>;

// Visits the stretches of `numel` elements that this rank owns, of the parameters that `wanted` selects. Padding beside
// such elements may be included, since it is zero.
void ForOwned(const std::vector<optim::SlicePart>& parts, int64_t numel, Wanted wanted,
              absl::FunctionRef<void(int64_t first, int64_t count)> visit) {
  int64_t at = 0;    // everything before it was visited or left out
  bool any = false;  // since then
  const auto visit_until = [&](int64_t end) {
    if (any && at < end) visit(at, end - at);
    any = false;
  };
  optim::ForStretches(parts, [&](int64_t offset, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
    if (stretch.part.padding) return;
    if (stretch.part.owned && wanted(p)) {
      any = true;
      return;
    }
    visit_until(offset);
    at = offset + stretch.where.count;
  });
  visit_until(numel);
}

// At least one tensor, which may have no elements.
std::vector<Tensor> OwnedGradients(const ParameterLayout& layout, Wanted wanted) {
  const std::vector<FlatGradient> gradients = layout.Gradients();
  std::vector<Tensor> owned;
  for (const FlatGradient& flat : gradients) {
    const Tensor all = flat.gradient.Flat();
    ForOwned(flat.parts, all.numel(), wanted,
             [&](int64_t first, int64_t count) { owned.push_back(all.Slice(first, count)); });
  }
  if (owned.empty()) owned.push_back(gradients.at(0).gradient.Flat().Slice(0, 0));  // gives an empty sum its type
  return owned;
}

// Of these parts: how many stretches a rank owns if it owns nothing that several ranks hold, and how many elements
// those have.
struct WithoutShared {
  size_t stretches = 0;
  int64_t shared = 0;
};
WithoutShared CountWithoutShared(const std::vector<optim::SlicePart>& parts) {
  WithoutShared without;
  bool inside = false;
  optim::ForStretches(parts, [&](int64_t, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
    if (stretch.part.padding) return;
    const bool alone = stretch.part.holders.none();
    without.stretches += alone && !inside;
    if (!alone) without.shared += stretch.where.count;
    inside = alone;
  });
  return without;
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

bool GradientNorm::differs_briefly() const { return !ctx_.device.IsOnHost(owned_[0]); }

// Which stretches a rank leaves out depends on its shard; on a rank that owns all it holds, on nothing.
void GradientNorm::TellShardsApart(bool stands_for_others) {
  const auto any = [](const nn::Parameter&) { return true; };
  std::map<size_t, size_t> most;  // by bucket: stretches that a rank may have
  int64_t shared = 0;             // elements that others may not own
  const auto count = [&](size_t bucket, const std::vector<optim::SlicePart>& kept) {
    const WithoutShared without = CountWithoutShared(kept);
    most[bucket] = std::max(most[bucket], without.stretches);
    shared += without.shared;
  };
  const std::vector<FlatGradient> gradients = layout_.Gradients();
  for (size_t g = 0; g < gradients.size(); ++g) count(g, gradients[g].parts);
  const bool for_shards = layout_.TellShardsApart(
      [&](size_t bucket, const std::vector<optim::SlicePart>& kept) -> ParameterLayout::ShardTraits {
        count(bucket, kept);
        std::string text;
        bool all = true;
        const int64_t numel = kept.empty() ? 0 : kept.back().offset + kept.back().count;
        optim::ForStretches(kept, [&](int64_t, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
          all = all && (stretch.part.padding || stretch.part.owned);
        });
        if (all) return {};
        ForOwned(kept, numel, any, [&](int64_t first, int64_t count) { StrAppend(&text, first, "+", count, " "); });
        return {StrCat("owns ", text)};
      },
      "shards have different parts of the gradient norm", differs_briefly());
  if (!stands_for_others && !for_shards) return;
  size_t all = 0;
  for (const auto& [bucket, stretches] : most) all += stretches;
  // Nothing is computed where ranks stand for others, so it does not matter which elements these are.
  const Tensor any_gradient = gradients[0].gradient.Flat();
  for (size_t n = owned_.size() + owned_experts_.size(); n < all; ++n) others_.push_back(any_gradient.Slice(0, 1));
  // Whoever does not own what several ranks hold takes less time for that.
  if (shared > 0) others_.push_back(any_gradient.Slice(0, std::min(shared, any_gradient.numel())));
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
    ctx_.device.Briefly([&] {
      for (const Tensor& other : others_)
        ctx_.Launch(ops::SquaredNorm{.in = other, .out = squares, .accumulate = true});
    });
    sum(squares, layout_.shard_group());
    if (!of_experts.empty()) ctx_.Launch(ops::AddTo{.in = of_experts, .out = squares});
    model_.AllReduce(squares).WaitOn(ctx_.stream);
  });
}

}  // namespace twofold
