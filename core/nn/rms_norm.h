// Root-mean-square normalisation (Zhang and Sennrich 2019) over the last dimension, with gain.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// x, y: [.., hidden]. Parameter: "weight" (ones) [hidden], no weight decay.
class RmsNorm : public Module {
 public:
  RmsNorm(int64_t hidden, DType dtype, double eps = 1e-5);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "rms_norm"; }

 private:
  enum Slot { kX, kRstd, kDy };
  double eps_;
  Parameter* gamma_;
};

}  // namespace twofold::nn
