// A sparsely gated mixture of experts in place of a feed-forward part: a router sends every token to top_k of the
// experts, and their outputs are summed with the router's weights (Shazeer et al. 2017, section 2; Jiang et al. 2024,
// "Mixtral", section 2.1).
//
// With capacities, an expert takes at most C = ceil(capacity_factor * top_k * T / experts) of the T tokens that are
// routed together: those of this rank's rows of the micro-batch (Lepikhin et al. 2021, "GShard", section 2.2). Tokens
// are accepted in the order of their position. A token that exceeds an expert's capacity is dropped there: its output
// lacks that expert's contribution. So all shapes are fixed, independent of the router: memory and time are those of
// full experts, and predictions made without data also hold with data. If capacity_factor >= experts / top_k, no token
// is ever dropped, because every expert has room for all.
//
// Without capacities (`dropless`), every choice has a row, ordered by expert (Gale et al. 2023, "MegaBlocks: Efficient
// Sparse Training with Mixture-of-Experts", MLSys, section 5): nothing is dropped or padded, and how many rows an
// expert has is data, which the host reads in every layer and micro-batch. Where there are none, `assumed` stands in.
//
// The router is a Linear in the model's type; its softmax is in f32. The weights of the chosen experts are divided by
// their sum (with top_k = 1, the weight is the probability itself, as in Fedus et al. 2022, "Switch Transformers",
// section 2.1). The load-balancing loss
//     aux_loss * experts * sum over experts of f_i P_i        (Fedus et al. 2022, section 2.2, equation 4)
// of the tokens that are routed together is applied as a gradient of the logits; it is not part of any reported loss.
// It is averaged over micro-batches, as the loss is, and summed over layers.
//
// Saved for backward, for T tokens of `hidden`: the input; the slots that go to the experts and come back (2 * experts
// * C * hidden; dropless: 2 * top_k * T * hidden); what the experts save; and for the router (experts + top_k) T
// elements of f32 and 2 top_k T elements of 4 bytes.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/nn/composite.h"
#include "core/nn/experts.h"
#include "core/nn/linear.h"
#include "core/nn/routing.h"

namespace twofold::nn {

struct MixtureConfig {
  int64_t hidden = 0, ffn = 0;  // ffn: width of each expert
  int64_t experts = 1, top_k = 1;
  bool dropless = false;
  double capacity_factor = 1.25;  // not used if dropless
  double aux_loss = 0;            // weight of the load-balancing loss
  // Dropless, where there are no data: what routers are assumed to choose; of the model's block `block`, on rank `rank`
  // of the world. Null: every expert equally often.
  std::shared_ptr<const AssumedRouting> assumed = nullptr;
  int64_t block = 0, rank = 0;
  DType dtype = DType::kF32;
  Init router_init, gate_up_init, projection_init;

  ExpertsConfig AllExperts() const {
    return {.hidden = hidden,
            .ffn = ffn,
            .experts = experts,
            .dtype = dtype,
            .gate_up_init = gate_up_init,
            .projection_init = projection_init};
  }
  // Dropless: of `tokens` tokens of a rank of the world, the assumed number of choices of each expert.
  std::vector<int64_t> AssumedChoices(int64_t of_rank, int64_t tokens) const {
    return DivideChoices(assumed == nullptr ? std::span<const double>() : assumed->SharesOf(block, of_rank), experts,
                         tokens, top_k);
  }
  LinearConfig Router() const {
    return {.in = hidden, .out = experts, .bias = false, .dtype = dtype, .weight_init = router_init};
  }
};

// C, limited to `tokens`.
int64_t ExpertCapacity(const MixtureConfig& config, int64_t tokens);

// What `counts` (I32) on the device holds, after everything launched so far; `assumed` if it has no data.
std::vector<int64_t> ReadCounts(Context& ctx, const Tensor& counts, std::vector<int64_t> assumed);

// x, y: [.., hidden]. Children: "router", "experts".
class Mixture : public Composite {
 public:
  explicit Mixture(const MixtureConfig& config)
      : Mixture(config, std::make_unique<Linear>(config.Router()), std::make_unique<Experts>(config.AllExperts())) {}
  // With a router from [.., hidden] to [.., experts] and experts from [experts, C, hidden], or if dropless from [top_k
  // T, hidden], to the same shape, both made elsewhere. Uses only sizes, capacity, assumptions and the auxiliary loss's
  // weight of `config`.
  Mixture(const MixtureConfig& config, std::unique_ptr<Module> router, std::unique_ptr<Module> experts);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  std::string_view kind() const override { return "mixture"; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override;

 private:
  enum Slot { kProbabilities, kWeights, kExpertsOf, kPlaces, kResults };
  enum Child { kRouter, kExperts };
  Tensor ApplyExperts(Context& ctx, const Tensor& x, const ops::Choices& choices, const Tensor& counts, Saved& saved);
  const MixtureConfig config_;
};

}  // namespace twofold::nn
