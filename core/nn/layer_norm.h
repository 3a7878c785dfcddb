// Layer normalisation (Ba et al. 2016) over the last dimension, with gain and bias.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// x, y: [.., hidden]. Parameters: "weight" (ones) and "bias" (zeros), [hidden], no weight decay.
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t hidden, DType dtype, double eps = 1e-5);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "layer_norm"; }

 private:
  enum Slot { kX, kMean, kRstd, kDy };
  double eps_;
  Parameter* gamma_;
  Parameter* beta_;
};

}  // namespace twofold::nn
