#include "core/nn/swiglu.h"

#include "core/nn/rows.h"

namespace twofold::nn {

Tensor SwiGlu::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  Tensor y = ctx.Activation(WithLast(x.shape(), x.dim(-1) / 2), x.dtype());
  ctx.Launch(ops::SwiGluForward{.x = x, .y = y});
  saved[kX] = x;
  return y;
}

Tensor SwiGlu::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  const Tensor x = saved.Take(kX);
  Tensor dx = x.unique() ? x : ctx.Activation(x.shape(), x.dtype());  // x is not needed again
  ctx.Launch(ops::SwiGluBackward{.x = x, .dy = dy, .dx = dx});
  return dx;
}

GatedMlp::GatedMlp(const GatedMlpConfig& c, Layers& layers) {
  Add("gate_up",
      layers.Column({.in = c.hidden, .out = 2 * c.ffn, .bias = false, .dtype = c.dtype, .weight_init = c.gate_up_init},
                    {c.ffn, c.ffn}));
  Add("swiglu", std::make_unique<SwiGlu>());
  Add("projection",
      layers.Row({.in = c.ffn, .out = c.hidden, .bias = false, .dtype = c.dtype, .weight_init = c.projection_init}));
}

}  // namespace twofold::nn
