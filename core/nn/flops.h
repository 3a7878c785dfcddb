// Model FLOPs: what a training step must compute, whatever is recomputed on the way. A multiply-add counts as
// two.
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
// Backward costs twice as much as forward: each product has two gradients. (The attention operation's
// backward also computes its scores again: 2.5 times. That is hardware, not model, FLOPs.)
#pragma once

#include <cstdint>

#include "core/nn/cnn.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/mlp_model.h"

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

}  // namespace twofold::nn
