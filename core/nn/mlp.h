// The transformer's feed-forward part: widen, GELU, project back.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

struct MlpBlockConfig {
  int64_t hidden = 0, ffn = 0;
  DType dtype = DType::kF32;
  Init fc_init, projection_init;  // of the weights; biases start at zero
};

// x, y: [.., hidden]. Children: "fc" (to ffn), "gelu", "projection" (back); made by `layers`.
class Mlp : public Sequential {
 public:
  explicit Mlp(const MlpBlockConfig& config, Layers& layers = OneRank());
  std::string_view kind() const override { return "mlp"; }
};

}  // namespace twofold::nn
