// y = x W^T + b, with W stored [out, in] as PyTorch stores it. Its three products may be in FP8 (fp8.h).
#pragma once

#include "core/nn/fp8.h"
#include "core/nn/gelu_product.h"

namespace twofold::nn {

struct LinearConfig {
  int64_t in = 0, out = 0;
  bool bias = true;
  DType dtype = DType::kF32;
  Init weight_init, bias_init;  // default: zero
  Fp8Options fp8 = {};          // dtype must not be F64
};

// x: [.., in]; y: [.., out]. Parameters: "weight" [out, in], "bias" [out] (no weight decay).
class Linear : public Module, public ProductThenGelu, public GeluThenProduct {
 public:
  explicit Linear(const LinearConfig& config);
  // Uses the weight of another module, [out, in], which must outlive this one (a language model's tied head).
  Linear(const LinearConfig& config, Parameter* shared_weight);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override { kInput.Keep(ctx, fp8_.recipe, x, saved); }
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  Tensor ForwardGelu(Context& ctx, const Tensor& x, Tensor& y, Saved& saved) override;
  Tensor BackwardInputGelu(Context& ctx, Tensor dy, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy, kScales, kDyCodes, kDyScales };
  static constexpr SavedInput kInput{.codes = kX, .scales = kScales};
  static constexpr SavedGradient kGradient{.dy = kDy, .codes = kDyCodes, .scales = kDyScales};
  // y = x W^T + b, or with its GELU in `activated`; keeps x.
  void Multiply(Context& ctx, const Tensor& x, const Tensor& y, const Tensor* activated, Saved& saved);
  // With the slope of the GELU before, if `before_gelu` is not null.
  Tensor InputGradient(Context& ctx, Tensor dy, const Tensor* before_gelu, Saved& saved);
  int64_t in_, out_;
  const Fp8Options fp8_;
  WeightCodes codes_{fp8_};
  Parameter* weight_;
  Parameter* bias_ = nullptr;
};

}  // namespace twofold::nn
