// Layer normalisation (Ba et al. 2016) over the last dimension, with gain and bias.
#pragma once

#include "core/nn/residual_norm.h"

namespace twofold::nn {

// x, y: [.., hidden]. Parameters: "weight" (ones) and "bias" (zeros), [hidden], no weight decay.
class LayerNorm : public ResidualNorm {
 public:
  LayerNorm(int64_t hidden, DType dtype, double eps = 1e-5);

  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "layer_norm"; }

 protected:
  Tensor Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) override;
  Tensor InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) override;

 private:
  enum Slot { kX, kMean, kRstd, kDy };
  double eps_;
  Parameter* gamma_;
  Parameter* beta_;
};

}  // namespace twofold::nn
