// Pooling of images with channels last, [n, height, width, channels]. No parameters.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// The maximum of each window; y: [n, (height + 2 padding - size) / stride + 1, same for width, channels].
class MaxPool : public Module {
 public:
  MaxPool(int64_t size, int64_t stride, int64_t padding) : size_(size), stride_(stride), padding_(padding) {}
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "max_pool"; }

 private:
  enum Slot { kChosen, kX };  // only x's shape is used; x stays alive anyway as another module's output
  int64_t size_, stride_, padding_;
};

// The mean over all pixels; y: [n, channels].
class GlobalAveragePool : public Module {
 public:
  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context&, Saved&) override {}
  std::string_view kind() const override { return "global_average_pool"; }

 private:
  enum Slot { kX };  // only its shape is used, as above
};

}  // namespace twofold::nn
