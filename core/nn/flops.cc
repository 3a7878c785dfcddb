#include "core/nn/flops.h"

namespace twofold::nn {

double GptForwardFlops(const GptConfig& config, int64_t samples) {
  const auto h = static_cast<double>(config.hidden), ffn = static_cast<double>(config.ffn_width()),
             t = static_cast<double>(config.sequence), vocab = static_cast<double>(config.vocab),
             layers = static_cast<double>(config.layers);
  const double products = 2 * (4 * h * h + 2 * h * ffn);  // qkv and projection; fc and projection
  const double attention = 2 * t * h;  // scores and values: 2 products, half of them masked
  return static_cast<double>(samples) * t * (layers * (products + attention) + 2 * h * vocab);
}

double LlamaForwardFlops(const LlamaConfig& config, int64_t samples) {
  const auto h = static_cast<double>(config.hidden), ffn = static_cast<double>(config.ffn),
             t = static_cast<double>(config.sequence), vocab = static_cast<double>(config.vocab),
             layers = static_cast<double>(config.layers), head = static_cast<double>(config.head_width());
  const double q = static_cast<double>(config.heads) * head, kv = static_cast<double>(config.kv()) * head;
  const double products = 2 * (h * (2 * q + 2 * kv) + 3 * h * ffn);  // qkv and projection; gate, up and projection
  const double attention = 2 * t * q;
  return static_cast<double>(samples) * t * (layers * (products + attention) + 2 * h * vocab);
}

double MlpForwardFlops(const MlpConfig& config, int64_t samples) {
  double multiplies = 0;
  int64_t width = config.inputs;
  for (int64_t next : config.hidden) {
    multiplies += static_cast<double>(width) * static_cast<double>(next);
    width = next;
  }
  multiplies += static_cast<double>(width) * static_cast<double>(config.classes);
  return 2 * multiplies * static_cast<double>(samples);
}

}  // namespace twofold::nn
