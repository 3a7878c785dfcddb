// A linear layer whose outputs are split over ranks: rank r of n has the rows W_r of W = [W_0; ...; W_n-1] (the columns of A in
// the paper, which writes Y = X A), and computes its features Y_r = X W_r^T + b_r of every token. What follows works on features or
// heads by themselves, until a RowParallelLinear adds the ranks' results up.
//   Shoeybi et al. 2019, "Megatron-LM", section 3 (figure 3: f is in front of this layer);
//   Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2.2.
//
// With n ranks, a micro-batch of b sequences of t tokens, h inputs and elements of e bytes, and M = b t h e:
//   memory         1/n of the weight, its gradient, its optimizer state and the output. The input is kept for the weight's
//                  gradient: M; with sequence parallelism M/n, the rank's own rows
//   communication  forward: none; backward: the input's gradient is summed, 2 M (n - 1) / n bytes sent by each rank (a ring).
//                  With sequence parallelism: forward gathers the input and backward scatters the sum of its gradient,
//                  M (n - 1) / n each; and the input, which was not kept, is gathered again for the weight's gradient
//   compute        1/n of the layer's three products; nothing is computed twice
// Overlap: the sum of the input's gradient travels while the weight's gradient is computed, and the input is gathered again while
// its gradient is computed. Where a schedule computes the weights' gradients later (zero bubble), there is nothing to hide them
// behind.
// Use it within a node, where links are fast: a layer waits for every message that nothing hides. Limits: n divides the
// output's parts, so that ranks are equal; small products lose efficiency before they lose time.
#pragma once

#include <span>

#include "core/nn/linear.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

// Of rows [0, whole) in parts, one after the other, each of which is split evenly by itself: the ranges of this rank.
// E.g. gates and values of a SwiGLU. The sizes add up to `whole`, and `ranks` divides each.
std::vector<nn::ShardLayout::Range> SplitParts(std::span<const int64_t> parts, int rank, int ranks);

// x: [b, t, in] (this rank's rows of it, see exchange.h); y: [b, t, local out]. Parameters: "weight" [out, in] and
// "bias" [out], of both the ranges of rows `ranges`.
class ColumnParallelLinear final : public nn::Module, public nn::ProductThenGelu {
 public:
  // The group outlives it. Ranges of padding are columns of zeros.
  ColumnParallelLinear(const TensorParallelExchange& exchange, const nn::LinearConfig& config, std::vector<nn::ShardLayout::Range> ranges);
  // With another module's weight, [local out, in], which outlives this one; no bias.
  ColumnParallelLinear(const TensorParallelExchange& exchange, nn::Parameter* shared_weight);

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
  Tensor Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  Tensor ForwardGelu(nn::Context& ctx, const Tensor& x, Tensor& y, nn::Saved& saved) override;
  std::string_view kind() const override { return "linear"; }

 private:
  enum Slot { kX, kDy };
  ops::MatMul Product(const Tensor& x, const Tensor& y) const;
  Tensor InputGradient(nn::Context& ctx, const Tensor& dy) const;  // this rank's part of the sum
  void WeightGradients(nn::Context& ctx, const Tensor& x, const Tensor& dy);

  const TensorParallelExchange exchange_;
  nn::Parameter* weight_;
  nn::Parameter* bias_ = nullptr;
};

}  // namespace twofold
