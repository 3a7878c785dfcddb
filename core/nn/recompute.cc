#include "core/nn/recompute.h"

namespace twofold::nn {

Tensor Recompute::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Context passing = ctx;
  passing.for_backward = false;
  Tensor y = inner().Forward(passing, x, saved.child(0));
  saved.child(0).Clear();
  if (ctx.for_backward) {
    saved[kX] = x;
    saved.place = {.step = ctx.step, .micro_batch = ctx.micro_batch, .training = ctx.training};
  }
  return y;
}

void Recompute::ForwardAgain(Context& ctx, Saved& saved) {
  TWOFOLD_CHECK(saved.place.has_value(), path() + " runs backward without a forward pass");
  Context again = ctx;
  again.step = saved.place->step, again.micro_batch = saved.place->micro_batch, again.training = saved.place->training;
  again.for_backward = true, again.recomputing = true;
  saved.place.reset();
  const Tensor x = saved.Take(kX);
  const OwnerScope pass(ctx.owners(), {.pass = "recompute"});
  if (early_stop_)
    inner().FillSaved(again, x, saved.child(0));
  else
    inner().Forward(again, x, saved.child(0));
}

Tensor Recompute::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  ForwardAgain(ctx, saved);
  return inner().BackwardInput(ctx, std::move(dy), saved.child(0));
}

Tensor Recompute::Backward(Context& ctx, Tensor dy, Saved& saved) {
  ForwardAgain(ctx, saved);
  return inner().Backward(ctx, std::move(dy), saved.child(0));
}

}  // namespace twofold::nn
