// Where this rank keeps the means of a step's gradients, and how those of several micro-batches are added up there.
#pragma once

#include <utility>

#include "strategies/data_parallel/reducer.h"

namespace twofold {

// One object per bucket. Used from the rank's thread.
class GradientHome {
 public:
  virtual ~GradientHome() = default;
  // Called before a reduction starts. Returns where the reducer may write the mean, or an empty tensor.
  virtual Tensor Begin() = 0;
  virtual void Started() {}  // called when it has started
  // Adds a mean to those of the step's earlier micro-batches. `last`: it is that of the last one. Returns the sum, on
  // the device and in the type in which gradients accumulate.
  virtual Tensor Add(Tensor mean, bool last) = 0;
  // Takes the sum back after its elements may have changed. Work launched from now on finds it here.
  virtual void Store(Tensor sum) = 0;
  virtual void BeginStep() = 0;  // forgets the means of the step before
};

// A shard of gradients on the device.
class DeviceHome final : public GradientHome {
 public:
  // `ctx` must outlive it.
  DeviceHome(nn::Context& ctx, Tensor gradients) : ctx_(ctx), gradients_(std::move(gradients)) {}

  void BeginStep() override { holds_ = false; }
  Tensor Begin() override { return holds_ ? Tensor() : gradients_; }
  Tensor Add(Tensor mean, bool) override {
    if (holds_) {
      ctx_.Launch(ops::AddTo{.in = mean, .out = gradients_});
    } else if (mean.address() != gradients_.address()) {
      ctx_.Launch(ops::Cast{.in = mean, .out = gradients_});
    }
    holds_ = true;
    return gradients_;
  }
  void Store(Tensor) override {}

 private:
  nn::Context& ctx_;
  const Tensor gradients_;
  bool holds_ = false;  // means of the step's earlier micro-batches
};

}  // namespace twofold
