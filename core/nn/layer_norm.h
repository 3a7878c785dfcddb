// Layer normalisation (Ba et al. 2016) over the last dimension, with gain and bias.
#pragma once

#include "core/nn/residual_norm.h"

namespace twofold::nn {

// How the gain is stored. kMinusOne: as gain - 1, which starts at 0 and is more exact near 1 in 16 bits (Megatron-LM's
// --apply-layernorm-1p). A small kernel adds the 1 in each pass, as there.
enum class Gain { kWhole, kMinusOne };

// x, y: [.., hidden]. Parameters: "weight" (gains of 1) and "bias" (zeros), [hidden], no weight decay.
class LayerNorm : public ResidualNorm {
 public:
  LayerNorm(int64_t hidden, DType dtype, double eps = 1e-5, Gain gain = Gain::kWhole);

  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "layer_norm"; }

 protected:
  Tensor Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) override;
  Tensor InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) override;

 private:
  enum Slot { kX, kMean, kRstd, kDy };
  Tensor GainData(Context& ctx) const;
  const Gain gain_;
  double eps_;
  Parameter* gamma_;
  Parameter* beta_;
};

}  // namespace twofold::nn
