// A Model whose sizes are a config struct of core/nn: what the files of the kinds have in common.
#pragma once

#include <memory>
#include <utility>

#include "core/nn/flops.h"
#include "strategies/models/kinds.h"

namespace twofold {

template <class Config>
class ConfiguredModel : public Model {
 public:
  // `kind`: the row.
  ConfiguredModel(const ModelKind& kind, Config config) : kind_(kind), config_(std::move(config)) {}
  std::string_view name() const override { return kind_.name; }
  nn::BlockFlops FlopsByBlock() const override { return nn::ForwardFlopsByBlock(config_); }

 protected:
  const ModelKind& kind_;
  const Config config_;
};

// `Module`: the transformer of core/nn that Config describes.
template <class Config, class Module>
class TransformerModel final : public ConfiguredModel<Config> {
 public:
  using ConfiguredModel<Config>::ConfiguredModel;
  std::string_view block() const override { return "transformer_block"; }
  std::string_view unit() const override { return block(); }
  ModelInput input() const override { return {ModelInput::kTokens, config_.sequence, config_.vocab}; }
  ModelShape shape() const override {
    ModelShape shape{.layers = config_.layers,
                     .hidden = config_.hidden,
                     .heads = config_.heads,
                     .kv_heads = config_.heads,
                     .ffn = config_.ffn,
                     .sequence = config_.sequence,
                     .tied = config_.tied};
    if constexpr (requires { config_.kv_heads; }) shape.kv_heads = config_.kv_heads;
    if constexpr (requires { config_.experts; }) shape.experts = config_.experts.experts;
    return shape;
  }
  double HardwareFlops(const nn::Recomputation& recomputation, int64_t samples) const override {
    return nn::HardwareFlops(config_, recomputation, samples);
  }
  // Hidden states [samples, tokens, hidden]: 1 / cp of the sequence's tokens, and 1 / tp of these under sequence
  // parallelism.
  Boundary BoundaryBefore(int64_t, const BoundaryShare& share) const override {
    const int64_t tokens = config_.sequence / share.cp / (share.sequence_parallel ? share.tp : 1);
    return {.shape = {share.samples, tokens, config_.hidden}, .equal = !share.sequence_parallel};
  }
  std::unique_ptr<nn::Module> Make(ModelTypes types, const nn::ModelPart& part, nn::Layers& layers) const override {
    Config config = config_;
    config.dtype = types.parameter;
    return std::make_unique<Module>(config, part, layers);
  }

 private:
  using ConfiguredModel<Config>::config_;
};

}  // namespace twofold
