// Batch normalisation (Ioffe and Szegedy 2015): normalises every channel over the images and pixels of a micro-batch.
//
// In training each micro-batch is normalised by its own mean and (biased) variance, and the running statistics move
// towards them: running = (1 - momentum) * running + momentum * batch, with the unbiased variance, as in PyTorch.
// Outside training the running statistics are used for normalisation and do not change. They do not change either when
// a forward pass is recomputed (context.h).
//
// `sync`: statistics are taken over all ranks that ctx.statistics joins, so that N ranks train like one process with N
// times the micro-batch. Each layer and micro-batch needs two collectives: an all-gather of 2 * channels values per
// rank (forward), and a sum of 2 * channels values (backward). Every rank must have the same number of rows.
#pragma once

#include <optional>

#include "core/nn/module.h"

namespace twofold::nn {

struct BatchNormConfig {
  int64_t channels = 0;
  bool relu = false;  // y = max(normalised value, 0), in the same pass
  bool sync = false;
  double momentum = 0.1, eps = 1e-5;
  DType dtype = DType::kF32;
  std::optional<DType> buffer = {};  // type of the running statistics: F32 or F64; default: accumulation type of dtype
};

// x, y: [.., channels]. Parameters: "weight" (ones) and "bias" (zeros), no weight decay. Buffers:
// "running_mean" (zeros), "running_variance" (ones); all [channels].
class BatchNorm : public Module {
 public:
  explicit BatchNorm(const BatchNormConfig& config);

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;  // in place if dy has no other owner
  void BackwardWeights(Context& ctx, Saved& saved) override;
  std::string_view kind() const override { return "batch_norm"; }

 private:
  enum Slot { kX, kY, kMean, kRstd, kSums };
  bool Synchronised(const Context& ctx) const {
    return config_.sync && ctx.statistics != nullptr && ctx.statistics->ranks() > 1;
  }
  // The statistics of each rank's rows; empty outside training.
  Tensor Statistics(Context& ctx, const Tensor& x) const;
  void StoreGradient(Context& ctx, Parameter& parameter, const Tensor& sum) const;

  const BatchNormConfig config_;
  Parameter* gamma_;
  Parameter* beta_;
  Parameter* running_mean_;
  Parameter* running_variance_;
};

}  // namespace twofold::nn
