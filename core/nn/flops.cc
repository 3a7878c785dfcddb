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

double CnnForwardFlops(const CnnConfig& config, int64_t samples) {
  double multiplies = 0;
  int64_t height = config.height, width = config.width, channels = config.channels;
  const auto halve = [&] { height = (height + 1) / 2, width = (width + 1) / 2; };
  const auto convolve = [&](int64_t in, int64_t out, int64_t kernel) {
    multiplies += static_cast<double>(height * width) * static_cast<double>(kernel * kernel * in) * static_cast<double>(out);
  };
  const bool imagenet = config.stem == CnnConfig::kImageNet;
  if (imagenet) halve();
  convolve(channels, config.widths[0], imagenet ? 7 : 3);
  if (imagenet) halve();
  channels = config.widths[0];
  for (size_t s = 0; s < config.widths.size(); ++s) {
    const int64_t out = config.widths[s];
    for (int64_t b = 0; b < config.blocks[s]; ++b, channels = out) {
      const bool halves = s > 0 && b == 0;
      if (halves) halve();
      convolve(channels, out, 3);
      convolve(out, out, 3);
      if (halves || channels != out) convolve(channels, out, 1);
    }
  }
  multiplies += static_cast<double>(channels) * static_cast<double>(config.classes);
  return 2 * multiplies * static_cast<double>(samples);
}

}  // namespace twofold::nn
