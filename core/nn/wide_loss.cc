#include "core/nn/wide_loss.h"

#include <utility>

namespace twofold::nn {
namespace {

class WideLoss final : public Loss {
 public:
  explicit WideLoss(std::unique_ptr<Loss> inner) : inner_(std::move(inner)) {}

  Tensor Forward(Context& ctx, const Tensor& logits, const Tensor& targets, Saved& saved) override {
    dtype_ = logits.dtype();
    return inner_->Forward(ctx, Wide(ctx, logits), targets, saved);
  }
  Tensor Backward(Context& ctx, Saved& saved, double scale) override {
    const Tensor wide = inner_->Backward(ctx, saved, scale);
    Tensor narrow = ctx.Activation(wide.shape(), dtype_);
    ctx.Launch(ops::Cast{.in = wide, .out = narrow});
    return narrow;
  }
  Tensor Losses(Context& ctx, const Tensor& logits, const Tensor& targets) override {
    return inner_->Losses(ctx, Wide(ctx, logits), targets);
  }
  void CountCorrect(Context& ctx, const Tensor& logits, const Tensor& targets, const Tensor& total) override {
    inner_->CountCorrect(ctx, Wide(ctx, logits), targets, total);
  }

 private:
  static Tensor Wide(Context& ctx, const Tensor& logits) {
    Tensor wide = ctx.Activation(logits.shape(), DType::kF32);
    ctx.Launch(ops::Cast{.in = logits, .out = wide});
    return wide;
  }

  const std::unique_ptr<Loss> inner_;
  DType dtype_ = DType::kF32;  // of the logits
};

}  // namespace

std::unique_ptr<Loss> MakeWideLoss(std::unique_ptr<Loss> inner) { return std::make_unique<WideLoss>(std::move(inner)); }

}  // namespace twofold::nn
