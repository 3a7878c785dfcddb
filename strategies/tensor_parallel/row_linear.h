// A linear layer whose inputs are split over ranks. Rank r of n holds the columns W_r of W = [W_0, ..., W_n-1] (the
// rows of A in the paper, which writes Y = X A) and receives the features X_r from a ColumnParallelLinear or the layers
// after it. The ranks' X_r W_r^T are summed, then the bias is added.
//   Shoeybi et al. 2019, "Megatron-LM", section 3 (figure 3: g is behind this layer);
//   Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2.
//
// With n ranks, a micro-batch of b sequences of t tokens, h outputs and elements of e bytes, and M = b t h e:
//   memory         1/n of the weight, its gradient, its optimizer state and the input, which is kept for the weight's
//                  gradient. Every rank has the whole bias
//   communication  forward: an all-reduce of the output, 2 M (n - 1) / n bytes sent by each rank (a ring); backward:
//                  none. With sequence parallelism: a reduce-scatter of the output forward and an all-gather of its
//                  gradient backward, M (n - 1) / n each. Sums are sent in the activations' type, as in Megatron-LM
//   compute        1/n of the layer's three matrix products
// FP8 (core/nn/fp8.h): each rank scales its columns of W and its X_r; sums over ranks stay in the activations' type.
// The gradient of the output is gathered as codes with sequence parallelism and one scale a tensor (fp8_rows.h).
// Nothing hides the sum of the forward pass, since the next layer needs it, unless it is computed part by part
// (`rings`, ring_product.h). Under sequence parallelism each rank gets the bias's gradient of its own rows only, so it
// is summed over the ranks before the update (shared_parameters.h). Without sequence parallelism all ranks have the
// same gradient. For use and limits see column_linear.h; n must divide the number of inputs.
#pragma once

#include "core/nn/linear.h"
#include "strategies/tensor_parallel/exchange.h"
#include "strategies/tensor_parallel/fp8_rows.h"

namespace twofold {

// x: [b, t, in / n], or [b, in / n] without sequence parallelism; y: [.., out] (this rank's rows of it, see
// exchange.h). Parameters: "weight" [out, in], of which this rank holds in / n columns, and "bias" [out], which rank 0
// owns.
class RowParallelLinear final : public nn::Module, public nn::GeluThenProduct {
 public:
  // The group must outlive it.
  RowParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config);

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override;
  void FillSaved(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    kInput.Keep(ctx, fp8_.recipe, x, saved);
  }
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
  Tensor BackwardInputGelu(nn::Context& ctx, Tensor dy, const Tensor& x, nn::Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy, kScales, kDyCodes, kDyScales };
  static constexpr nn::SavedInput kInput{.codes = kX, .scales = kScales};
  static constexpr nn::SavedGradient kGradient{.dy = kDy, .codes = kDyCodes, .scales = kDyScales};
  Tensor MultiplyAndSum(nn::Context& ctx, const Tensor& x, nn::Saved& saved);  // without the bias; keeps x
  Tensor InputGradient(nn::Context& ctx, Tensor dy, const Tensor* before_gelu, nn::Saved& saved);
  template <class MakeResult, class Multiply>
  void GatherCodesAndMultiply(nn::Context& ctx, Tensor dy, MakeResult make, Multiply multiply, nn::Saved& saved);
  const TensorParallelExchange exchange_;
  const nn::Fp8Options fp8_;
  nn::WeightCodes codes_{fp8_};
  nn::Parameter* weight_;
  nn::Parameter* bias_ = nullptr;
};

}  // namespace twofold
