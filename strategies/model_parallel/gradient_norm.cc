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

// Of these parts: how many stretches of wanted parameters a rank owns if it owns nothing that several ranks hold.
size_t StretchesWithoutShared(const std::vector<optim::SlicePart>& parts, Wanted wanted) {
  size_t stretches = 0;
  bool inside = false;
  optim::ForStretches(parts, [&](int64_t, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
    if (stretch.part.padding) return;
    const bool own = stretch.part.holders.none() && wanted(p);
    stretches += own && !inside;
    inside = own;
  });
  return stretches;
}

int64_t SharedElements(const std::vector<optim::SlicePart>& parts) {
  int64_t shared = 0;
  optim::ForStretches(parts, [&](int64_t, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
    if (!stretch.part.padding && !stretch.part.holders.none()) shared += stretch.where.count;
  });
  return shared;
}

}  // namespace

GradientNorm::GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model, ProcessGroup* experts)
    : ctx_(ctx),
      layout_(layout),
      model_(model),
      experts_(experts != nullptr && experts->size() > 1 ? experts : nullptr) {
  const auto is_expert = [this](const nn::Parameter& p) { return IsExpert(p); };
  owned_ = OwnedGradients(layout, [&](const nn::Parameter& p) { return !is_expert(p); });
  const std::vector<nn::Parameter*> parameters = layout.Parameters();
  if (std::any_of(parameters.begin(), parameters.end(), [&](const nn::Parameter* p) { return is_expert(*p); }))
    owned_experts_ = OwnedGradients(layout, is_expert);
}

bool GradientNorm::DiffersBriefly(int sharers) const {
  const ProcessGroup* const shards = layout_.shard_group();
  return !ctx_.device.IsOnHost(owned_[0]) || shards == nullptr || shards->size() == sharers;
}

// Which stretches a rank leaves out depends on its shard; on a rank that owns all it holds, on nothing.
void GradientNorm::TellShardsApart(bool stands_for_others, bool briefly) {
  const auto any = [](const nn::Parameter&) { return true; };
  std::map<size_t, Others> others;  // by bucket
  const std::vector<FlatGradient> gradients = layout_.Gradients();
  for (size_t g = 0; g < gradients.size(); ++g) Consider(gradients[g].parts, others[g]);
  const bool for_shards = layout_.TellShardsApart(
      [&](size_t bucket, const std::vector<optim::SlicePart>& kept) -> ParameterLayout::ShardTraits {
        Consider(kept, others[bucket]);
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
      "shards have different parts of the gradient norm", briefly);
  if (stands_for_others || for_shards) StandFor(others, gradients[0].gradient.Flat());
}

// What a rank with these parts may launch, at most.
void GradientNorm::Consider(const std::vector<optim::SlicePart>& parts, Others& most) const {
  const size_t stretches = StretchesWithoutShared(parts, [this](const nn::Parameter& p) { return !IsExpert(p); }) +
                           StretchesWithoutShared(parts, [this](const nn::Parameter& p) { return IsExpert(p); });
  most = {std::max(most.stretches, stretches), std::max(most.shared, SharedElements(parts))};
}

// Nothing is computed where ranks stand for others, so it does not matter which elements these are.
void GradientNorm::StandFor(const std::map<size_t, Others>& others, const Tensor& any) {
  size_t stretches = 0;
  int64_t shared = 0;
  for (const auto& [bucket, of_bucket] : others) stretches += of_bucket.stretches, shared += of_bucket.shared;
  for (size_t n = owned_.size() + owned_experts_.size(); n < stretches; ++n) others_.push_back(any.Slice(0, 1));
  // Whoever does not own what several ranks hold takes less time for that.
  for (int64_t some; shared > 0; shared -= some) {
    some = std::min(shared, any.numel());
    others_.push_back(any.Slice(0, some));
  }
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
    if (!others_.empty()) ctx_.device.Briefly([&] { optim::AddSquares(ctx_, others_, squares); });
    sum(squares, layout_.shard_group());
    if (!of_experts.empty()) ctx_.Launch(ops::AddTo{.in = of_experts, .out = squares});
    model_.AllReduce(squares).WaitOn(ctx_.stream);
  });
}

}  // namespace twofold
