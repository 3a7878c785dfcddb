// Element-wise non-linearities. They have no parameters; x and y have the same shape.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class Activation : public Module {
 public:
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // in place if dy has no other owner
  void BackwardWeights(Context&, Saved&) override {}

 protected:
  enum Slot { kX };
  explicit Activation(ops::ActivationForward::Kind kind) : kind_(kind) {}

 private:
  ops::ActivationForward::Kind kind_;
};

// max(x, 0); its derivative at 0 is 0.
class Relu : public Activation {
 public:
  Relu() : Activation(ops::ActivationForward::kRelu) {}
  std::string_view kind() const override { return "relu"; }
};

// max(x, 0)^2 (So et al. 2021, "Primer").
class SquaredRelu : public Activation {
 public:
  SquaredRelu() : Activation(ops::ActivationForward::kSquaredRelu) {}
  std::string_view kind() const override { return "squared_relu"; }
};

// Hendrycks and Gimpel 2016, in the tanh form that GPT-2 uses.
class Gelu : public Activation {
 public:
  Gelu() : Activation(ops::ActivationForward::kGelu) {}
  std::string_view kind() const override { return "gelu"; }

  // For layers that fuse the GELU into a matrix product (gelu_product.h): what Forward saves and BackwardInput takes.
  static void Keep(Saved& saved, Tensor x) { saved[kX] = std::move(x); }
  static Tensor Take(Saved& saved) { return saved.Take(kX); }
};

}  // namespace twofold::nn
