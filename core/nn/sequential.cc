#include "core/nn/sequential.h"

namespace twofold::nn {

Tensor Sequential::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor h = x;
  for (size_t i = 0; i < children().size(); ++i) h = Apply(i, ctx, h, saved);
  return h;
}

void Sequential::FillSaved(Context& ctx, const Tensor& x, Saved& saved) {
  if (children().empty()) return;
  Tensor h = x;
  const size_t last = children().size() - 1;
  for (size_t i = 0; i < last; ++i) h = Apply(i, ctx, h, saved);
  Fill(last, ctx, h, saved);
}

Tensor Sequential::Propagate(const Backprop& back, Tensor dy) {
  for (size_t i = children().size(); i-- > 0;) dy = back(i, std::move(dy));
  return dy;
}

}  // namespace twofold::nn
