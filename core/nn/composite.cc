#include "core/nn/composite.h"

namespace twofold::nn {

Tensor Composite::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  return Propagate(Backprop(*this, ctx, saved, &Module::BackwardInput), std::move(dy));
}

void Composite::BackwardWeights(Context& ctx, Saved& saved) {
  for (size_t i = children().size(); i-- > 0;) children()[i].module->BackwardWeights(ctx, saved.child(i));
}

Tensor Composite::Backward(Context& ctx, Tensor dy, Saved& saved) {
  return Propagate(Backprop(*this, ctx, saved, &Module::Backward), std::move(dy));
}

}  // namespace twofold::nn
