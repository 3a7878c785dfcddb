// The parts of a model that one stage of an interleaved pipeline holds, as one module that owns the parameters and that
// a layout can wrap. It has no passes of its own: chunks are run one by one, each with the layout's wrapper around it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/nn/module.h"

namespace twofold {

class Chunks final : public nn::Module {
 public:
  static constexpr std::string_view kKind = "chunks";

  // The parts must not be named yet. Their parameters get the names that they have in the whole model.
  explicit Chunks(std::vector<std::unique_ptr<nn::Module>> parts);
  std::string_view kind() const override { return kKind; }

  // Never called.
  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
};

// The chunks of a model in order, with the layout's wrappers around them. `model` is a layout's model, made from a
// Chunks or from a single part.
std::vector<nn::Module*> ChunksOf(nn::Module& model);

}  // namespace twofold
