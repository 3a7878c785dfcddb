// A linear layer whose outputs are split over ranks. Rank r of n holds the rows W_r of W = [W_0; ...; W_n-1] (the
// columns of A in the paper, which writes Y = X A) and computes its features Y_r = X W_r^T + b_r for every token. The
// layers that follow work on features or heads independently, until a RowParallelLinear sums the ranks' results.
//   Shoeybi et al. 2019, "Megatron-LM", section 3 (figure 3: f is in front of this layer);
//   Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2.
//
// With n ranks, a micro-batch of b sequences of t tokens, h inputs and elements of e bytes, and M = b t h e:
//   memory         1/n of the weight, its gradient, its optimizer state and the output. The input is kept for the
//                  weight's gradient: M bytes, or M/n with sequence parallelism (only the rank's own rows)
//   communication  forward: none; backward: an all-reduce of the input's gradient, 2 M (n - 1) / n bytes sent by each
//                  rank (a ring). With sequence parallelism: an all-gather of the input forward and a reduce-scatter of
//                  its gradient backward, M (n - 1) / n each. The gathered input is not kept, so it is gathered again
//                  for the weight's gradient
//   compute        1/n of the layer's three matrix products; nothing is computed twice
// FP8 (core/nn/fp8.h): each rank scales its rows of W and its part of dY. The input is kept in FP8. With sequence
// parallelism, these are the codes of the rank's own rows, which are gathered (fp8_rows.h); but with one scale for 128
// elements, own rows are kept and gathered in their own type, and rounded once they are gathered.
// Overlap: the input's gradient is summed while the weight's gradient is computed, and the input is gathered again
// while its gradient is computed. The gather of the forward pass is hidden only by `rings` (ring_product.h). If a
// schedule computes the weights' gradients later (zero bubble), nothing hides these messages. Use it within a node,
// where links are fast, because a layer waits for every message that no computation hides. Limits: n must divide each
// of the output's parts, so that ranks are equal. Small matrix products lose efficiency before they save time.
#pragma once

#include <span>

#include "core/nn/linear.h"
#include "strategies/tensor_parallel/exchange.h"
#include "strategies/tensor_parallel/fp8_rows.h"

namespace twofold {

// The ranges of rows that belong to `rank`. The rows consist of consecutive parts of sizes `parts` (e.g. the gates and
// values of a SwiGLU), and each part is split evenly. `ranks` must divide each size.
std::vector<nn::ShardLayout::Range> SplitParts(std::span<const int64_t> parts, int rank, int ranks);

// x: [b, t, in] (this rank's rows of it, see exchange.h), or [b, in] without sequence parallelism; y: [.., local out].
// Parameters: "weight" [out, in] and "bias" [out]; this rank holds the rows `ranges` of both.
class ColumnParallelLinear final : public nn::Module, public nn::ProductThenGelu {
 public:
  // The group must outlive it. Padding ranges give columns of zeros in y.
  ColumnParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config,
                       const std::vector<nn::ShardLayout::Range>& ranges);
  // Shares another module's weight [local out, in], which must outlive this module. No bias.
  ColumnParallelLinear(const TensorParallelExchange& exchange, nn::Parameter* shared_weight);

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
  Tensor Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  Tensor ForwardGelu(nn::Context& ctx, const Tensor& x, Tensor& y, nn::Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy, kScales, kDyCodes, kDyScales };
  static constexpr nn::SavedInput kInput{.codes = kX, .scales = kScales};
  static constexpr nn::SavedGradient kGradient{.dy = kDy, .codes = kDyCodes, .scales = kDyScales};
  // y = x W^T + b of the gathered x, or with its GELU in `activated`, whose shapes `make` has made; keeps x.
  template <class MakeResults>
  void MultiplyAndKeep(nn::Context& ctx, const Tensor& x, MakeResults make, const Tensor& y, const Tensor* activated,
                       nn::Saved& saved);
  // How x is kept for the weight's gradient. As this rank's rows, to be gathered again: their codes or, in their own
  // type, themselves. (Without sequence parallelism and FP8, these are all rows.) Otherwise as the codes of all rows.
  bool keeps_own_codes() const { return GathersCodes(exchange_, fp8_.recipe); }
  bool keeps_rows() const {
    return fp8_.recipe == nn::Fp8Recipe::kOff || (exchange_.splits_rows() && !keeps_own_codes());
  }
  // `make`: makes the results, whose rows have this shape. `multiply`: computes the results of some rows.
  template <class MakeResults, class Multiply>
  void GatherAndMultiply(nn::Context& ctx, const Tensor& x, MakeResults make, Multiply multiply);
  Tensor InputGradient(nn::Context& ctx, Tensor dy, nn::Saved& saved);  // this rank's part of the sum; keeps dy
  nn::ProductOperand InputForWeights(nn::Context& ctx, PendingTensor x, nn::Saved& saved) const;
  void WeightGradients(nn::Context& ctx, const nn::ProductOperand& x, nn::Saved& saved);  // of the dy that was kept

  const TensorParallelExchange exchange_;
  const nn::Fp8Options fp8_;
  nn::WeightCodes codes_{fp8_};
  nn::Parameter* weight_;
  nn::Parameter* bias_ = nullptr;
};

}  // namespace twofold
