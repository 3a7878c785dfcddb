// Error feedback: what a message left out of a tensor is added to the next one, so that nothing is lost for good.
//   Seide et al. 2014, "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of
//   Speech DNNs", Interspeech: section 3.1.
//   Karimireddy et al. 2019, "Error Feedback Fixes SignSGD and other Gradient Compression Schemes", ICML: algorithm 1.
//
// The sum of all that was sent, plus the residual, is the sum of all tensors. The residual is kept without the loss
// scale, so that it stays right when the scale changes.
//   memory   4 bytes per element (F64: 8), Category::kCommunication; twice that if steps may be skipped
//   compute  one pass over the tensor, which adds the residual; two more with a loss scale other than 1
#pragma once

#include <utility>

#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold {

struct FeedbackOptions {
  bool enabled = true;
  // Steps may be skipped, or lost with a rank, so that the residual from before a step is kept until the next one
  bool may_skip = false;
};

// One object per tensor that is sent again and again. Used from the rank's thread.
class ErrorFeedback {
 public:
  // `numel` elements, sums of which are of type `wide` (F32 or F64).
  ErrorFeedback(nn::Context& ctx, int64_t numel, DType wide, const FeedbackOptions& options) : wide_(wide) {
    if (!options.enabled || numel == 0) return;
    residual_ = New(ctx, numel);
    ctx.Launch(ops::Fill{.out = residual_, .value = 0});
    if (options.may_skip) before_ = New(ctx, numel);
  }

  void BeginStep(nn::Context& ctx) {
    if (before_.empty()) return;
    std::swap(residual_, before_);
    ctx.Launch(ops::Cast{.in = before_, .out = residual_});
  }
  // Returns what is to be encoded, in the type `wide`: `in`, or with feedback `in` + residual. In the latter case it
  // is the tensor residual(), in which the encoder leaves the new residual. `scale`: the loss scale that `in` contains.
  Tensor Add(nn::Context& ctx, const Tensor& in, double scale) {
    if (residual_.empty()) {
      if (in.dtype() == wide_) return in;
      Tensor cast = New(ctx, in.numel());
      ctx.Launch(ops::Cast{.in = in, .out = cast});
      return cast;
    }
    if (scale != 1) ctx.Launch(ops::Scale{.x = residual_, .factor = scale});
    ctx.Launch(ops::AddTo{.in = in, .out = residual_});
    return residual_;
  }
  const Tensor& residual() const { return residual_; }  // empty without feedback
  void Encoded(nn::Context& ctx, double scale) {        // called when the encoder has left the new residual
    if (!residual_.empty() && scale != 1) ctx.Launch(ops::Scale{.x = residual_, .factor = 1 / scale});
  }
  void Skip() {
    if (!before_.empty()) std::swap(residual_, before_);
  }

 private:
  Tensor New(nn::Context& ctx, int64_t numel) const {
    return ctx.device.NewTensor(Shape{numel}, wide_, Category::kCommunication, "error feedback");
  }
  DType wide_;
  Tensor residual_, before_;
};

}  // namespace twofold
