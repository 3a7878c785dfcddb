#include "core/nn/mlp.h"

#include "core/nn/activation.h"
#include "core/nn/linear.h"

namespace twofold::nn {

Mlp::Mlp(const MlpBlockConfig& c) {
  Add("fc", std::make_unique<Linear>(LinearConfig{.in = c.hidden, .out = c.ffn, .dtype = c.dtype,
                                                  .weight_init = c.fc_init}));
  Add("gelu", std::make_unique<Gelu>());
  Add("projection", std::make_unique<Linear>(LinearConfig{.in = c.ffn, .out = c.hidden, .dtype = c.dtype,
                                                          .weight_init = c.projection_init}));
}

}  // namespace twofold::nn
