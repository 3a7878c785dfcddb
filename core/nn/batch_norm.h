// Batch normalisation (Ioffe and Szegedy 2015): every channel over the images and pixels of a micro-batch.
//
// In training each micro-batch is normalised by its own mean and (biased) variance, and the running statistics move
// towards them: running = (1 - momentum) * running + momentum * batch, the variance unbiased, as PyTorch does. Outside
// training the running statistics normalise, and stay; so they do where a forward pass is run again (context.h).
//
// `sync`: statistics are those of all ranks that ctx.statistics joins, so that N ranks train like one process with N times
// the micro-batch. Two messages a layer and micro-batch: 2 channels from each rank to all (forward), and the sum of 2
// channels (backward). Every rank must bring as many rows.
#pragma once

#include <optional>

#include "core/nn/module.h"

namespace twofold::nn {

struct BatchNormConfig {
  int64_t channels = 0;
  bool relu = false;  // y = max(the normalised, 0), in the same pass
  bool sync = false;
  double momentum = 0.1, eps = 1e-5;
  DType dtype = DType::kF32;
  std::optional<DType> buffer = {};  // of the running statistics: F32 or F64; default: what dtype is accumulated in
};

// x, y: [.., channels]. Parameters: "weight" (ones) and "bias" (zeros), no weight decay. Buffers:
// "running_mean" (zeros), "running_variance" (ones); all [channels].
class BatchNorm : public Module {
 public:
  explicit BatchNorm(const BatchNormConfig& config);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // in place when nobody else holds dy
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "batch_norm"; }

 private:
  enum Slot { kX, kY, kMean, kRstd, kSums };
  bool Synchronised(const Context& ctx) const { return config_.sync && ctx.statistics != nullptr && ctx.statistics->ranks() > 1; }
  // What each rank's rows say; empty outside training.
  Tensor Statistics(Context& ctx, const Tensor& x) const;
  void StoreGradient(Context& ctx, Parameter& parameter, const Tensor& sum) const;

  const BatchNormConfig config_;
  Parameter* gamma_;
  Parameter* beta_;
  Parameter* running_mean_;
  Parameter* running_variance_;
};

}  // namespace twofold::nn
