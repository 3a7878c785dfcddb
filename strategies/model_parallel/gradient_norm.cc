#include "strategies/model_parallel/gradient_norm.h"

#include <algorithm>
#include <map>

#include "core/optim/clip.h"
#include "strategies/model_parallel/slices.h"

namespace twofold {
namespace {

Address EndOf(const Tensor& t) { return t.address() + static_cast<Address>(t.bytes().value()); }

// What is owned of the layout's gradients. Padding is zero and may be in it.
std::vector<Tensor> OwnedGradients(ParameterLayout& layout) {
  std::map<Address, Address> others;  // where elements that others own begin and end
  ForSliceRanges(layout, [&](const SliceRange& range) {
    const bool padding = range.run.whole < 0 && range.parameter.cut().dim == 0;
    if (range.run.owned || padding || range.run.count == 0) return;
    const Tensor gradient = range.slice.gradient.Flat().Slice(range.offset, range.run.count);
    others[gradient.address()] = EndOf(gradient);
  });
  std::vector<Tensor> owned;
  for (const Tensor& flat : layout.Gradients()) {
    const Tensor all = flat.Flat();
    const auto size = static_cast<Address>(ElementSize(flat.dtype()));
    Address at = all.address();
    const auto keep_until = [&](Address end) {
      if (at < end) owned.push_back(all.Slice(static_cast<int64_t>((at - all.address()) / size), static_cast<int64_t>((end - at) / size)));
    };
    for (auto other = others.lower_bound(at); other != others.end() && other->first < EndOf(all); ++other) {
      keep_until(other->first);
      at = other->second;
    }
    keep_until(EndOf(all));
  }
  return owned;
}

}  // namespace

GradientNorm::GradientNorm(nn::Context& ctx, ParameterLayout& layout, ProcessGroup& model)
    : ctx_(ctx), layout_(layout), model_(model), owned_(OwnedGradients(layout)) {}

Tensor GradientNorm::Squared() {
  return optim::SquaredNorm(ctx_, owned_, [this](Tensor& squares) {
    ProcessGroup* holders = layout_.holders();
    if (holders != nullptr) holders->AllReduce(squares).WaitOn(ctx_.stream);
    model_.AllReduce(squares).WaitOn(ctx_.stream);
  });
}

}  // namespace twofold
