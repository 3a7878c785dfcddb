// Model FLOPs: what a training step must compute, whatever is recomputed on the way; and hardware FLOPs: what its operations
// do compute. A multiply-add counts as two.
//
// Counted are the matrix products and attention's two products, as Narayanan et al. 2021 (appendix) and
// Chowdhery et al. 2022 (PaLM, appendix B) do; norms, activations and additions are not. Of attention's t x t
// scores only the causal half is counted, as the attention operation computes it (Megatron's formula counts
// them all).
//
// GPT, a token: layers * (2 * (4 hidden^2 + 2 hidden ffn) + 2 t hidden) + 2 hidden vocab.
// CNN, an image: 2 * output pixels * kernel^2 * input channels * output channels for each convolution, and the head.
// Llama, with q = heads * head_dim and kv = kv_heads * head_dim:
//     layers * (2 * (hidden (2 q + 2 kv) + 3 hidden ffn) + 2 t q) + 2 hidden vocab.
// Of a layer with experts (top_k of E chosen, each ffn wide), 3 hidden ffn becomes hidden E + 3 top_k hidden ffn: a token's model
// FLOPs are those of the experts that it chose.
// Backward costs twice as much as forward: each product has two gradients.
//
// Hardware FLOPs are those of the same products as they are launched, every one of them. They differ from model FLOPs by
//   * what is computed again (recompute.h): a block's products of the forward pass, or its attention's;
//   * tiled attention, whose backward computes the scores once more: 2.5 times the forward pass;
//   * unfused attention, which computes all t x t scores, masked or not: forward and backward twice what is needed;
//   * experts, which compute all slots that they have, empty ones too, and not what is dropped: capacity_factor * top_k in place
//     of top_k, at most E (up to the rounding of a capacity to whole rows);
//   * a CNN's first convolution, whose input needs no gradient: less.
// For a GPT with unfused attention and ffn = 4 hidden, B samples a step of s tokens, L layers of h, V tokens in all, they are
//     72 B s L h^2 (1 + s / 6h + V / 12hL)     nothing recomputed (Korthikanti et al. 2022, equation 7)
//     96 B s L h^2 (1 + s / 6h + V / 16hL)     every block (Narayanan et al. 2021, equation 3)
//     72 B s L h^2 (1 + 2s / 9h + V / 12hL)    every attention core: its forward pass, a third of equation 7's 6 h s, once more
// (Equation 8 of Korthikanti et al. states 1 + s / 3h for the last: the whole of attention once more.)
#pragma once

#include <cstdint>

#include "core/nn/cnn.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/mlp_model.h"
#include "core/nn/recompute.h"

namespace twofold::nn {

// Of one forward pass over `samples` sequences of full length, or `samples` rows.
double GptForwardFlops(const GptConfig& config, int64_t samples);
double LlamaForwardFlops(const LlamaConfig& config, int64_t samples);
double MlpForwardFlops(const MlpConfig& config, int64_t samples);
double CnnForwardFlops(const CnnConfig& config, int64_t samples);

// Forward and backward.
inline double GptTrainingFlops(const GptConfig& config, int64_t samples) {
  return 3 * GptForwardFlops(config, samples);
}
inline double LlamaTrainingFlops(const LlamaConfig& config, int64_t samples) {
  return 3 * LlamaForwardFlops(config, samples);
}
inline double MlpTrainingFlops(const MlpConfig& config, int64_t samples) {
  return 3 * MlpForwardFlops(config, samples);
}
// The first convolution's input is the image, which has no gradient; it is counted all the same, as others do.
inline double CnnTrainingFlops(const CnnConfig& config, int64_t samples) {
  return 3 * CnnForwardFlops(config, samples);
}

// Forward and backward as they are launched.
double GptHardwareFlops(const GptConfig& config, const Recomputation& recomputation, int64_t samples);
double LlamaHardwareFlops(const LlamaConfig& config, const Recomputation& recomputation, int64_t samples);
// Of whole blocks: it has no attention.
double CnnHardwareFlops(const CnnConfig& config, const Recomputation& recomputation, int64_t samples);
inline double MlpHardwareFlops(const MlpConfig& config, int64_t samples) { return MlpTrainingFlops(config, samples); }

}  // namespace twofold::nn
