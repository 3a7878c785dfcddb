// The experts of a mixture: gated feed-forward parts (swiglu.h) side by side, each of which works on the rows in its
// own slots. The matrices of one kind form one parameter, expert after expert, and one batched product computes them
// all.
#pragma once

#include <span>

#include "core/nn/sequential.h"

namespace twofold::nn {

// x: [s, experts, c, in] or [experts, c, in], with slots from s senders, or [n, in], with the rows of expert 0, then
// those of expert 1 and so on, as many as Context::routed says; y: the same with `out` in place of `in`. Expert e has
// its own matrix W_e, and y = x W_e^T. Parameter "weight": the experts' W_e [out, in] stacked along rows or, if
// `transposed`, their W_e^T [in, out]. This way, a slice of the features between two such layers is a range of rows in
// both. Slots are one batched product; rows are one product for each expert that has some.
class ExpertLinear : public Module {
 public:
  struct Config {
    int64_t experts = 1, in = 0, out = 0;
    bool transposed = false;
    double gradient_factor = 1;  // factor on the weight's gradient
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
  ops::Matrices SlotsOf(const Tensor& t) const;  // for each expert, one matrix per sender
  ops::Matrices Weights(const Tensor& t, int64_t senders) const;
  ops::BatchedMatMul Product(const Tensor& x) const;
  // Calls launch(expert, first row, rows) for each expert that has rows in x.
  template <class F>
  void ForExperts(const Tensor& x, std::span<const int64_t> rows, F launch) const;
  ops::Matrices RowsOf(const Tensor& t, int64_t first) const;
  ops::Matrices WeightOf(const Tensor& t, int64_t expert) const;

  const Config config_;
  Parameter* weight_;
};

struct ExpertsConfig {
  int64_t hidden = 0, ffn = 0, experts = 1;
  // Factor on all weights' gradients, for when each rank's loss is a mean and gradients are summed over ranks.
  double gradient_factor = 1;
  DType dtype = DType::kF32;
  Init gate_up_init, projection_init;
};

// x, y: [.., experts, c, hidden] or [n, hidden]. Children: "gate_up" (to 2 * ffn: weight [experts * 2 * ffn, hidden]),
// "swiglu", "projection" (back: weight [experts * ffn, hidden]). There are no biases.
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
