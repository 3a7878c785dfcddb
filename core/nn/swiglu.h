// The gated feed-forward part of Llama: silu(gate) * up, then a projection back (Shazeer 2020).
#pragma once

#include "core/nn/layers.h"
#include "core/nn/sequential.h"

namespace twofold::nn {

// x: [.., 2 * c], gates first, then values; y: [.., c].
class SwiGlu : public Module {
 public:
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "swiglu"; }

 private:
  enum Slot { kX };
};

struct GatedMlpConfig {
  int64_t hidden = 0, ffn = 0;
  DType dtype = DType::kF32;
  Init gate_up_init, projection_init;
};

// x, y: [.., hidden]. Children, made by `layers`: "gate_up" (to 2 * ffn), "swiglu", "projection" (back). No biases.
class GatedMlp : public Sequential {
 public:
  explicit GatedMlp(const GatedMlpConfig& config, Layers& layers = OneRank());
  std::string_view kind() const override { return "mlp"; }
};

}  // namespace twofold::nn
