#include "core/nn/composite.h"

#include "core/nn/residual_norm.h"

namespace twofold::nn {

// A wrapper around a norm adds the gradient in a separate pass.
Tensor Composite::Backprop::operator()(size_t child, Tensor dy, const Tensor& past) const {
  auto* norm = dynamic_cast<ResidualNorm*>(parent_.children()[child].module);
  if (norm == nullptr) {
    const Tensor dx = (*this)(child, std::move(dy));
    ctx.Launch(ops::AddTo{.in = past, .out = dx});
    return dx;
  }
  Tensor dx;
  {
    const InModule in(ctx, *norm);
    dx = norm->BackwardInputPlus(ctx, std::move(dy), past, saved.child(child));
  }
  EndOf(child);
  return dx;
}

Tensor Composite::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  return Propagate(Backprop(*this, ctx, saved, &Module::BackwardInput), std::move(dy));
}

void Composite::BackwardWeights(Context& ctx, Saved& saved) {
  for (size_t i = children().size(); i-- > 0;) {
    const InModule in(ctx, *children()[i].module);
    children()[i].module->BackwardWeights(ctx, saved.child(i));
  }
}

Tensor Composite::Backward(Context& ctx, Tensor dy, Saved& saved) {
  return Propagate(Backprop(*this, ctx, saved, &Module::Backward), std::move(dy));
}

}  // namespace twofold::nn
