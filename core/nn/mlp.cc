#include "core/nn/mlp.h"

#include "core/nn/activation.h"

namespace twofold::nn {

Mlp::Mlp(const MlpBlockConfig& c, Layers& layers) {
  Add("fc", layers.Column({.in = c.hidden, .out = c.ffn, .dtype = c.dtype, .weight_init = c.fc_init}, {c.ffn}));
  Add("gelu", std::make_unique<Gelu>());
  Add("projection", layers.Row({.in = c.ffn, .out = c.hidden, .dtype = c.dtype, .weight_init = c.projection_init}));
}

}  // namespace twofold::nn
