// The parts of a model that one stage of an interleaved pipeline holds, as one module: what owns parameters and what a layout is
// put over. It has no pass of its own: chunks are run one by one, each with what a layout has put around it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/nn/module.h"

namespace twofold {

class Chunks final : public nn::Module {
 public:
  static constexpr std::string_view kKind = "chunks";

  // Parts that have no names yet: those of their parameters will be those of the whole model.
  explicit Chunks(std::vector<std::unique_ptr<nn::Module>> parts);
  std::string_view kind() const override { return kKind; }

  // Never called.
  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override;
};

// The chunks of a model, in order, as they are to be run: `model` is what a layout made of a Chunks, or of a single part.
std::vector<nn::Module*> ChunksOf(nn::Module& model);

}  // namespace twofold
