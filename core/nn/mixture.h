// A sparsely gated mixture of experts in place of a feed-forward part: a router sends every token to the top_k of its experts, and
// what they make of it is summed with the router's weights (Shazeer et al. 2017, section 2; Jiang et al. 2024, "Mixtral", section 2.1).
//
// An expert takes at most C = ceil(capacity_factor * top_k * T / experts) of the T tokens that are routed together: those of the
// micro-batch that this rank has the rows of (Lepikhin et al. 2021, "GShard", section 2.2). Those come first that stand first;
// for a token that comes too late, that expert's part is left out. So all shapes are fixed whatever the router says: memory and
// time are those of full experts, and what is predicted without data holds with data. From capacity_factor = experts / top_k on
// nothing is ever left out, and every expert has room for all.
//
// The router is a Linear in the model's type; its softmax is in f32. Chosen weights are divided by their sum (with top_k = 1, the
// weight is the probability itself, as Fedus et al. 2022, "Switch Transformers", section 2.1, have it). The load-balancing loss
//     aux_loss * experts * sum over experts of f_i P_i        (Fedus et al. 2022, section 2.2, equation 4)
// of the tokens that are routed together enters as a gradient of the logits; no reported loss has it. It is the mean over
// micro-batches, as the loss is, and the sum over layers.
//
// Kept for backward, of T tokens of `hidden`: the input, the slots that go to the experts and come back (2 * experts * C * hidden),
// what the experts keep of theirs, and of the router in f32 (experts + top_k) T besides 2 top_k T of 4 bytes.
#pragma once

#include "core/nn/composite.h"
#include "core/nn/experts.h"
#include "core/nn/linear.h"

namespace twofold::nn {

struct MixtureConfig {
  int64_t hidden = 0, ffn = 0;  // ffn: of each expert
  int64_t experts = 1, top_k = 1;
  double capacity_factor = 1.25;
  double aux_loss = 0;  // weight of the load-balancing loss
  DType dtype = DType::kF32;
  Init router_init, gate_up_init, projection_init;

  ExpertsConfig AllExperts() const {
    return {.hidden = hidden, .ffn = ffn, .experts = experts, .dtype = dtype, .gate_up_init = gate_up_init, .projection_init = projection_init};
  }
  LinearConfig Router() const { return {.in = hidden, .out = experts, .bias = false, .dtype = dtype, .weight_init = router_init}; }
};

// C, at most `tokens`.
int64_t ExpertCapacity(const MixtureConfig& config, int64_t tokens);

// x, y: [.., hidden]. Children: "router", "experts".
class Mixture : public Composite {
 public:
  explicit Mixture(const MixtureConfig& config)
      : Mixture(config, std::make_unique<Linear>(config.Router()), std::make_unique<Experts>(config.AllExperts())) {}
  // With a router [.., hidden] to [.., experts] and experts [experts, C, hidden] to the same, made elsewhere. Of `config` it uses
  // sizes, capacity and the auxiliary loss's weight.
  Mixture(const MixtureConfig& config, std::unique_ptr<Module> router, std::unique_ptr<Module> experts);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "mixture"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  enum Slot { kProbabilities, kWeights, kExpertsOf, kPlaces, kResults };
  enum Child { kRouter, kExperts };
  const MixtureConfig config_;
};

}  // namespace twofold::nn
