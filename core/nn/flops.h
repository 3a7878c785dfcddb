// Model FLOPs: what a training step must compute, without recomputation. Hardware FLOPs: what its operations actually
// compute. A multiply-add counts as two.
//
// Counted are the matrix products and attention's two products, as in Narayanan et al. 2021 (appendix) and Chowdhery et
// al. 2022 (PaLM, appendix B). Norms, activations and additions are not counted. Of attention's t x t scores only the
// causal half is counted, as the attention operation computes it (Megatron's formula counts them all).
//
// GPT, per token: layers * (2 * (4 hidden^2 + 2 hidden ffn) + 2 t hidden) + 2 hidden vocab.
// CNN, per image: 2 * output pixels * kernel^2 * input channels * output channels for each convolution, plus the head.
// Llama, with q = heads * head_dim and kv = kv_heads * head_dim:
//     layers * (2 * (hidden (2 q + 2 kv) + 3 hidden ffn) + 2 t q) + 2 hidden vocab.
// In a layer with experts (top_k of E chosen, each ffn wide), 3 hidden ffn becomes hidden E + 3 top_k hidden ffn: model
// FLOPs count only the experts that a token chose.
// Backward costs twice as much as forward, because each product has two gradients.
//
// Hardware FLOPs count all of the same products that are launched. They differ from model FLOPs by
//   * recomputation (recompute.h): the forward products of a block, or of its attention, once more; with an early stop
//     without the feed-forward part's last one (in parallel blocks without attention's last one, too);
//   * tiled attention, whose backward recomputes the scores: it costs 2.5 times the forward pass;
//   * unfused attention, which computes all t x t scores, masked or not: forward and backward cost twice what is
//     needed;
//   * experts, which compute all their slots, also empty ones, but no dropped tokens: capacity_factor * top_k in place
//     of top_k, at most E (up to the rounding of a capacity to whole rows). Without capacities they compute top_k, in
//     the mean over the ranks that share them;
//   * a CNN's first convolution, whose input needs no gradient: less.
// For a GPT with unfused attention and ffn = 4 hidden, B samples of s tokens per step, L layers of width h and V
// vocabulary entries, they are
//     72 B s L h^2 (1 + s / 6h + V / 12hL)     no recomputation (Korthikanti et al. 2022, equation 7)
//     96 B s L h^2 (1 + s / 6h + V / 16hL)     every block recomputed (Narayanan et al. 2021, equation 3)
//     72 B s L h^2 (1 + 2s / 9h + V / 12hL)    attention cores recomputed: a third of equation 7's s / 6h once more
// (Equation 8 of Korthikanti et al. states 1 + s / 3h for the last case: all of attention once more.)
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

#include "core/nn/cnn.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/mlp_model.h"
#include "core/nn/recompute.h"

namespace twofold::nn {

// One forward pass over one sample (a sequence of full length, an image or a row), part by part. What precedes the
// first block (a CNN's stem) and follows the last (the head) is counted apart.
struct BlockFlops {
  double before = 0;
  std::vector<double> blocks = {};
  double after = 0;
  double Sum() const { return std::accumulate(blocks.begin(), blocks.end(), before + after); }
};
BlockFlops ForwardFlopsByBlock(const GptConfig& config);
BlockFlops ForwardFlopsByBlock(const LlamaConfig& config);
BlockFlops ForwardFlopsByBlock(const MlpConfig& config);
BlockFlops ForwardFlopsByBlock(const CnnConfig& config);

// Forward and backward of a transformer as launched. Models without attention need no more than BlockFlops for it.
double HardwareFlops(const GptConfig& config, const Recomputation& recomputation, int64_t samples);
double HardwareFlops(const LlamaConfig& config, const Recomputation& recomputation, int64_t samples);

}  // namespace twofold::nn
