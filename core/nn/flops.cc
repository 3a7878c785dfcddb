#include "core/nn/flops.h"

#include <algorithm>

namespace twofold::nn {
namespace {

// Forward, per token: FLOPs of one layer and of the head.
struct TokenFlops {
  double products;   // of the layer's weight matrices
  double attention;  // of scores and mixing, only the unmasked half
  double head;
  int64_t layers;
  LlamaExperts experts = {};
  double with_experts = 0, with_slots = 0;  // like products, for a layer with experts: model FLOPs, and FLOPs launched
  double stopped = 0;                       // of the products: what a recomputed layer leaves out with an early stop
  double Launched(int64_t layer) const { return experts.At(layer) ? with_slots : products; }
  double LaunchedAgain(int64_t layer, bool early_stop) const {
    return Launched(layer) - (early_stop && !experts.At(layer) ? stopped : 0);
  }
};

TokenFlops Of(const GptConfig& config) {
  const auto h = static_cast<double>(config.hidden), ffn = static_cast<double>(config.ffn_width()),
             t = static_cast<double>(config.sequence), vocab = static_cast<double>(config.vocab);
  const double kv = h / static_cast<double>(config.heads) * static_cast<double>(config.kv());
  const bool stores_masks = config.dropout > 0 && config.masks == DropoutMasks::kStored;
  return {.products = 2 * (2 * h * h + 2 * h * kv + 2 * h * ffn),  // qkv and projection; fc and projection
          .attention = 2 * t * h,                                  // scores and values: 2 products, half of them masked
          .head = 2 * h * vocab,
          .layers = config.layers,
          .stopped = stores_masks ? 0 : 2 * h * ffn + (config.parallel_blocks ? 2 * h * h : 0)};
}

TokenFlops Of(const LlamaConfig& config) {
  const auto h = static_cast<double>(config.hidden), ffn = static_cast<double>(config.ffn),
             t = static_cast<double>(config.sequence), vocab = static_cast<double>(config.vocab),
             head = static_cast<double>(config.head_width());
  const double q = static_cast<double>(config.heads) * head, kv = static_cast<double>(config.kv()) * head;
  // Qkv and projection; gate, up and projection.
  const double of_attention = 2 * h * (2 * q + 2 * kv), expert = 2 * 3 * h * ffn;
  const auto all = static_cast<double>(config.experts.experts), chosen = static_cast<double>(config.experts.top_k);
  const double slots = config.experts.dropless ? chosen : std::min(config.experts.capacity_factor * chosen, all);
  return {.products = of_attention + expert,
          .attention = 2 * t * q,
          .head = 2 * h * vocab,
          .layers = config.layers,
          .experts = config.experts,
          .with_experts = of_attention + 2 * h * all + chosen * expert,
          .with_slots = of_attention + 2 * h * all + slots * expert,
          .stopped = 2 * h * ffn};
}

BlockFlops ByBlock(const TokenFlops& f, int64_t tokens) {
  const auto t = static_cast<double>(tokens);
  BlockFlops flops{.after = t * f.head};
  for (int64_t i = 0; i < f.layers; ++i)
    flops.blocks.push_back(t * (f.attention + (f.experts.At(i) ? f.with_experts : f.products)));
  return flops;
}

template <class Config>
double LaunchedFlops(const Config& config, const Recomputation& recomputation, int64_t samples) {
  const TokenFlops f = Of(config);
  const double forward = config.unfused_attention ? 2 * f.attention : f.attention;
  const double backward = (config.unfused_attention ? 2 : 2.5) * forward;
  double flops = 3 * f.head;
  for (int64_t i = 0; i < f.layers; ++i) {
    flops += 3 * f.Launched(i) + forward + backward;
    if (!recomputation.Has(i)) continue;
    flops += forward;
    if (recomputation.part == Recomputation::kBlock) flops += f.LaunchedAgain(i, recomputation.early_stop);
  }
  return static_cast<double>(samples * config.sequence) * flops;
}

}  // namespace

double HardwareFlops(const GptConfig& config, const Recomputation& recomputation, int64_t samples) {
  return LaunchedFlops(config, recomputation, samples);
}
double HardwareFlops(const LlamaConfig& config, const Recomputation& recomputation, int64_t samples) {
  return LaunchedFlops(config, recomputation, samples);
}

BlockFlops ForwardFlopsByBlock(const GptConfig& config) { return ByBlock(Of(config), config.sequence); }
BlockFlops ForwardFlopsByBlock(const LlamaConfig& config) { return ByBlock(Of(config), config.sequence); }

BlockFlops ForwardFlopsByBlock(const MlpConfig& config) {
  const auto linear = [&config](int64_t i) {
    return 2 * static_cast<double>(config.in(i)) * static_cast<double>(config.out(i));
  };
  BlockFlops flops{.after = linear(config.layers())};
  for (int64_t i = 0; i < config.layers(); ++i) flops.blocks.push_back(linear(i));
  return flops;
}

BlockFlops ForwardFlopsByBlock(const CnnConfig& config) {
  const auto convolution = [](int64_t height, int64_t width, int64_t in, int64_t out, int64_t kernel) {
    return 2 * static_cast<double>(height * width) * static_cast<double>(kernel * kernel * in) *
           static_cast<double>(out);
  };
  const bool imagenet = config.stem == CnnConfig::kImageNet;
  const auto behind = [imagenet](int64_t n) { return imagenet ? (n + 1) / 2 : n; };  // the stem's convolution
  BlockFlops flops{.before = convolution(behind(config.height), behind(config.width), config.channels, config.widths[0],
                                         imagenet ? 7 : 3)};
  for (const CnnBlock& b : BlocksOf(config)) {
    const bool projected = b.stride > 1 || b.in != b.out;
    flops.blocks.push_back(convolution(b.height, b.width, b.in, b.out, 3) +
                           convolution(b.height, b.width, b.out, b.out, 3) +
                           (projected ? convolution(b.height, b.width, b.in, b.out, 1) : 0));
  }
  flops.after = 2 * static_cast<double>(config.widths.back()) * static_cast<double>(config.classes);
  return flops;
}

}  // namespace twofold::nn
