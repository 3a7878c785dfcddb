// The transformer's feed-forward part: widen, GELU or squared ReLU, project back.
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

struct MlpBlockConfig {
  int64_t hidden = 0, ffn = 0;
  bool squared_relu = false;  // instead of GELU
  bool biases = true;
  DType dtype = DType::kF32;
  Init fc_init, projection_init;  // of the weights; biases start at zero
};

// x, y: [.., hidden]. Children, made by `layers`: "fc" (to ffn), "gelu" or
// "squared_relu", "projection" (back). If these layers support it (gelu_product.h), a GELU is fused into the product of
// fc, and its gradient into the product for projection's input gradient.
class Mlp : public Sequential {
 public:
  explicit Mlp(const MlpBlockConfig& config, Layers& layers = OneRank());
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  void FillSaved(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "mlp"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  enum Child { kFc, kGelu, kProjection };
  // fc, if it can take the GELU into its product; else null.
  ProductThenGelu* FusedFc() const;
  Tensor Activated(ProductThenGelu& fc, Context& ctx, const Tensor& x, Saved& saved);  // gelu(fc(x))
  // The child as a T; null if it is not a T, such as a wrapper around one.
  template <class T>
  T* As(Child child) const {
    return dynamic_cast<T*>(children()[child].module);
  }
};

}  // namespace twofold::nn
