// Root-mean-square normalisation (Zhang and Sennrich 2019) over the last dimension, with gain.
#pragma once

#include "core/nn/residual_norm.h"

namespace twofold::nn {

// x, y: [.., hidden]. Parameter: "weight" (ones) [hidden], no weight decay.
class RmsNorm : public ResidualNorm {
 public:
  RmsNorm(int64_t hidden, DType dtype, double eps = 1e-5);

  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "rms_norm"; }

 protected:
  Tensor Normalise(Context& ctx, const Tensor& x, const Tensor& branch, const Tensor& sum, Saved& saved) override;
  Tensor InputGradient(Context& ctx, Tensor dy, const Tensor& past, Saved& saved) override;

 private:
  enum Slot { kX, kRstd, kDy };
  double eps_;
  Parameter* gamma_;
};

}  // namespace twofold::nn
