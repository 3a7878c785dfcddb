#include "core/nn/position_embedding.h"

namespace twofold::nn {

PositionEmbedding::PositionEmbedding(int64_t sequence, int64_t hidden, DType dtype, Init init, Placing positions)
    : weight_(AddParameter("weight", Shape{sequence, hidden}, dtype, init, Role::kEmbedding)),
      positions_(std::move(positions)) {}

Tensor PositionEmbedding::Forward(Context& ctx, const Tensor& x, Saved&) {
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::PositionForward{.x = x, .table = weight_->data(), .out = y, .positions = PlaceOf(positions_, x)});
  return y;
}

Tensor PositionEmbedding::BackwardInput(Context&, Tensor dy, Saved& saved) {
  saved[kDy] = dy;
  return dy;
}

void PositionEmbedding::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor dy = saved.Take(kDy);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ctx.Launch(ops::PositionBackward{
      .dy = dy, .dtable = dw.tensor, .accumulate = dw.accumulate, .positions = PlaceOf(positions_, dy)});
  weight_->EndGradient();
}

}  // namespace twofold::nn
