// Two-dimensional convolution of images with channels last, as core/device/ops/convolution.h defines it.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

struct ConvolutionConfig {
  int64_t in = 0, out = 0, kernel = 3, stride = 1, padding = 0;
  bool bias = false;           // off by default: the batch normalisation that follows has its own
  bool input_gradient = true;  // false for images, which need no gradient: BackwardInput returns an empty tensor
  DType dtype = DType::kF32;
  Init weight_init, bias_init;  // default: zero
};

// x: [n, height, width, in]; y: [n, (height + 2 padding - kernel) / stride + 1, same for width, out].
// Parameters: "weight" [kernel, kernel, in, out], "bias" [out] (no weight decay).
class Convolution : public Module {
 public:
  explicit Convolution(const ConvolutionConfig& config);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "convolution"; }

 private:
  enum Slot { kX, kDy };
  const ConvolutionConfig config_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace twofold::nn
