#include "core/nn/layers.h"

#include <utility>

#include "core/nn/attention.h"
#include "core/nn/embedding.h"
#include "core/nn/layer_norm.h"
#include "core/nn/loss.h"
#include "core/nn/mixture.h"
#include "core/nn/position_embedding.h"
#include "core/nn/rms_norm.h"
#include "core/nn/rows.h"

namespace twofold::nn {
namespace {

class CrossEntropy final : public Loss {
 public:
  Tensor Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved) override {
    return SoftmaxCrossEntropy::Forward(ctx, logits, targets, saved);
  }
  Tensor Backward(Context& ctx, Saved& saved, double scale) override {
    return SoftmaxCrossEntropy::Backward(ctx, saved, scale);
  }
  Tensor Losses(Context& ctx, const Tensor& logits, const Tensor& targets) override {
    return SoftmaxCrossEntropy::Losses(ctx, logits, targets);
  }
  void CountCorrect(Context& ctx, const Tensor& logits, const Tensor& targets, const Tensor& total) override {
    ctx.Launch(ops::CountCorrect{.logits = Rows(logits), .targets = targets.Flat(), .out = total, .accumulate = true});
  }
};

}  // namespace

TokenEmbedding Layers::Embedding(int64_t vocab, int64_t hidden, DType dtype, Init init) {
  auto module = std::make_unique<nn::Embedding>(vocab, hidden, dtype, init);
  Parameter* weight = module->weight();
  return {std::move(module), weight};
}

std::unique_ptr<Module> Layers::Positions(int64_t sequence, int64_t hidden, DType dtype, Init init) {
  return std::make_unique<PositionEmbedding>(sequence, hidden, dtype, init);
}

std::unique_ptr<Module> Layers::Head(const LinearConfig& config, Parameter* shared) {
  if (shared != nullptr) return std::make_unique<Linear>(config, shared);
  return std::make_unique<Linear>(config);
}

std::unique_ptr<Loss> Layers::MakeLoss(int64_t) { return std::make_unique<CrossEntropy>(); }

std::unique_ptr<Module> Layers::MakeNorm(Norm norm, int64_t hidden, DType dtype, double eps) {
  if (norm == Norm::kRmsNorm) return std::make_unique<RmsNorm>(hidden, dtype, eps);
  return std::make_unique<LayerNorm>(hidden, dtype, eps, norm == Norm::kLayerNorm1p ? Gain::kMinusOne : Gain::kWhole);
}

std::unique_ptr<Module> Layers::MakeDropout(double p, DropoutMasks masks) {
  return std::make_unique<Dropout>(p, masks);
}

std::unique_ptr<Module> Layers::Whole(const LinearConfig& config) { return std::make_unique<Linear>(config); }

std::unique_ptr<Module> Layers::Column(const LinearConfig& config, std::vector<int64_t>) {
  return std::make_unique<Linear>(config);
}

std::unique_ptr<Module> Layers::Row(const LinearConfig& config) { return std::make_unique<Linear>(config); }

std::unique_ptr<Module> Layers::MakeFeatureDropout(double p, DropoutMasks masks) {
  return std::make_unique<Dropout>(p, masks);
}

std::unique_ptr<Module> Layers::MakeExperts(const MixtureConfig& config) { return std::make_unique<Mixture>(config); }

std::unique_ptr<Module> Layers::Qkv(const LinearConfig& config, const Heads&) {
  return std::make_unique<Linear>(config);
}

std::unique_ptr<Module> Layers::MakeRotary(std::shared_ptr<RotaryTable> table, const Heads& heads) {
  return std::make_unique<Rotary>(std::move(table), heads.queries + heads.keys);
}

std::unique_ptr<Module> Layers::AttentionCore(const Heads& heads) {
  return std::make_unique<nn::AttentionCore>(heads.queries, heads.keys);
}

std::unique_ptr<Module> Layers::UnfusedAttentionCore(const Heads& heads, double dropout, DropoutMasks masks) {
  return std::make_unique<nn::UnfusedAttentionCore>(heads.queries, heads.keys, dropout, masks);
}

Layers& OneRank() {
  static Layers layers;
  return layers;
}

}  // namespace twofold::nn
