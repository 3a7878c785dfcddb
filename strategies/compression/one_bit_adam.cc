#include "strategies/compression/one_bit_adam.h"

#include <memory>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "strategies/compression/coded_reducer.h"
#include "strategies/compression/one_bit.h"
#include "strategies/data_parallel/mean_reducer.h"

namespace twofold {
namespace {

class OneBitAdam final : public Reducer {
 public:
  OneBitAdam(nn::Context& ctx, const Bucket& bucket, const OneBitAdamOptions& options)
      : options_(options),
        wide_(ops::AccumulationType(bucket.dtype)),
        parts_(bucket.whole),
        mean_(MeanReducers(options.reduce)(ctx, bucket)),
        signs_(CodedReducers(OneBitCodecs(), options.feedback)(ctx, bucket)) {
    TWOFOLD_CHECK(bucket.groups.scatter == nullptr, "every rank has the whole momentum");
  }

  void Attached(const StateOf& state_of) override {
    for (const optim::SlicePart& part : parts_) momentum_.push_back(state_of(*part.parameter, "exp_avg"));
  }

  void BeginStep(nn::Context& ctx, double loss_scale) override {
    TWOFOLD_CHECK(momentum_.size() == parts_.size(), "the optimizer is attached before the first step");
    frozen_ = ctx.step >= options_.freeze_step;
    scale_ = loss_scale;
    if (frozen_)
      signs_->BeginStep(ctx, /*loss_scale=*/1);
    else
      mean_->BeginStep(ctx, loss_scale);
  }

  Work Start(nn::Context& ctx, Tensor in, Tensor out, bool last) override {
    if (!frozen_) {
      if (ctx.codecs != nullptr) ctx.codecs->Encoded(in.bytes(), Bytes(in.numel() * ElementSize(options_.reduce)));
      return mean_->Start(ctx, std::move(in), std::move(out), last);
    }
    if (in.dtype() != wide_) {
      const Tensor cast = ctx.device.NewTensor(in.shape(), wide_, Category::kCommunication);
      ctx.Launch(ops::Cast{.in = std::exchange(in, cast), .out = cast});
    }
    const double beta1 = options_.beta1;
    AddMomentum(ctx, in, (1 - beta1) / (beta1 * scale_), beta1);  // beta1 m + (1 - beta1) g
    return signs_->Start(ctx, std::move(in), out.dtype() == wide_ ? std::move(out) : Tensor(), last);
  }

  std::optional<Work> Next(nn::Context& ctx) override { return Now().Next(ctx); }
  bool has_next() const override { return Now().has_next(); }

  Tensor Mean(nn::Context& ctx) override {
    Tensor mean = Now().Mean(ctx);
    if (!frozen_) return mean;
    const double beta1 = options_.beta1;
    AddMomentum(ctx, mean, -1 / beta1, -beta1 / (1 - beta1) * scale_);  // (m' - beta1 m) / (1 - beta1)
    return mean;
  }

  void Skip(nn::Context& ctx) override { Now().Skip(ctx); }
  std::vector<ReducerState> State() const override {
    std::vector<ReducerState> states = signs_->State();
    for (ReducerState& state : states) state.name = "momentum_residual";  // gradients cannot go on with it
    return states;
  }

 private:
  Reducer& Now() const { return frozen_ ? *signs_ : *mean_; }

  // x = after * (before * x + m)
  void AddMomentum(nn::Context& ctx, const Tensor& x, double before, double after) const {
    const nn::CodecWork work(ctx);
    ctx.Launch(ops::Scale{.x = x, .factor = before});
    for (size_t i = 0; i < parts_.size(); ++i)
      ctx.Launch(ops::AddTo{.in = momentum_[i].Flat(), .out = x.Slice(parts_[i].offset, parts_[i].count)});
    ctx.Launch(ops::Scale{.x = x, .factor = after});
  }

  const OneBitAdamOptions options_;
  const DType wide_;
  const std::vector<optim::SlicePart> parts_;
  const std::unique_ptr<Reducer> mean_, signs_;
  std::vector<Tensor> momentum_;  // by part
  bool frozen_ = false;
  double scale_ = 1;  // the loss scale
};

}  // namespace

MakeReducer OneBitAdamReducers(const OneBitAdamOptions& options) {
  return
      [options](nn::Context& ctx, const Bucket& bucket) { return std::make_unique<OneBitAdam>(ctx, bucket, options); };
}

}  // namespace twofold
