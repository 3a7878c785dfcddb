// y = x W^T + b, with W stored [out, in] as PyTorch stores it.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

struct LinearConfig {
  int64_t in = 0, out = 0;
  bool bias = true;
  DType dtype = DType::kF32;
  Init weight_init, bias_init;  // default: zero
};

// x: [.., in]; y: [.., out]. Parameters: "weight" [out, in], "bias" [out] (no weight decay).
class Linear : public Module {
 public:
  explicit Linear(const LinearConfig& config);
  // Uses the weight of another module, [out, in], which must outlive this one (a language model's tied head).
  Linear(const LinearConfig& config, Parameter* shared_weight);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy };
  int64_t in_, out_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace twofold::nn
