// The experts of a mixture: as many gated feed-forward parts (swiglu.h) side by side, each of which works on the rows in its own
// slots. The matrices of one kind are one parameter, expert after expert, and one product of the device serves them all.
#pragma once

#include "core/nn/sequential.h"

namespace twofold::nn {

// x: [s, experts, c, in] or [experts, c, in], slots of s senders; y likewise, out wide. Expert e has a matrix W_e of its own, and
// y = x W_e^T. Parameter "weight": its experts' W_e [out, in] one under the other, or, `transposed`, W_e^T [in, out]. So a part of
// the features between two such layers is rows of both.
class ExpertLinear : public Module {
 public:
  struct Config {
    int64_t experts = 1, in = 0, out = 0;
    bool transposed = false;
    double gradient_factor = 1;  // of the weight's gradient
    DType dtype = DType::kF32;
    Init weight_init;
  };
  explicit ExpertLinear(const Config& config);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "expert_linear"; }
  Parameter* weight() { return weight_; }

 private:
  enum Slot { kX, kDy };
  ops::Matrices SlotsOf(const Tensor& t) const;       // for each expert, a matrix of each sender
  ops::Matrices Weights(const Tensor& t, int64_t senders) const;
  ops::BatchedMatMul Product(const Tensor& x) const;  // of as many matrices

  const Config config_;
  Parameter* weight_;
};

struct ExpertsConfig {
  int64_t hidden = 0, ffn = 0, experts = 1;
  double gradient_factor = 1;  // of all weights' gradients: where each rank's loss is a mean and they are sums over ranks
  DType dtype = DType::kF32;
  Init gate_up_init, projection_init;
};

// x, y: [.., experts, c, hidden]. Children: "gate_up" (to 2 * ffn: weight [experts * 2 * ffn, hidden]), "swiglu", "projection"
// (back: weight [experts * ffn, hidden]); no biases.
class Experts : public Sequential {
 public:
  explicit Experts(const ExpertsConfig& config);
  std::string_view kind() const override { return "experts"; }
  ExpertLinear& gate_up() { return *gate_up_; }
  ExpertLinear& projection() { return *projection_; }

 private:
  ExpertLinear *gate_up_, *projection_;
};

}  // namespace twofold::nn
