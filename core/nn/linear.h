// y = x W^T + b, with W stored [out, in] as PyTorch stores it.
#pragma once

#include "core/nn/gelu_product.h"

namespace twofold::nn {

struct LinearConfig {
  int64_t in = 0, out = 0;
  bool bias = true;
  DType dtype = DType::kF32;
  Init weight_init, bias_init;  // default: zero
};

// x: [.., in]; y: [.., out]. Parameters: "weight" [out, in], "bias" [out] (no weight decay).
class Linear : public Module, public ProductThenGelu, public GeluThenProduct {
 public:
  explicit Linear(const LinearConfig& config);
  // Uses the weight of another module, [out, in], which must outlive this one (a language model's tied head).
  Linear(const LinearConfig& config, Parameter* shared_weight);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context&, const Tensor& x, Saved& saved) override { saved[kX] = x; }
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  Tensor ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) override;
  Tensor BackwardInputGelu(Context& ctx, Tensor dy, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy };
  ops::MatMul Product(const Tensor& x, const Tensor& y) const;
  ops::MatMul InputGradient(const Tensor& dy, const Tensor& dx) const;
  int64_t in_, out_;
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace twofold::nn
