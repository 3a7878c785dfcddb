// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019): see ops::AdamStep.
#include "core/optim/optimizer.h"
#include "core/optim/states.h"

namespace twofold::optim {
namespace {

class Adam final : public Optimizer {
 public:
  Adam(const AdamOptions& options, const Offload& offload, const LowPrecisionUpdate& low_precision)
      : options_(options), states_({"exp_avg", "exp_avg_sq"}, offload, low_precision) {}

  void Attach(nn::Context& ctx, std::span<const Slice> slices) override {
    states_.Attach(ctx, slices, options_.weight_decay);
  }

  void Step(nn::Context& ctx, double lr, const Tensor& factor) override {
    ++step_;
    states_.Update([&](const Piece& p) {
      ctx.Launch(
          ops::AdamStep{.param = p.data,
                        .grad = p.gradient,
                        .m = p.moments[0],
                        .v = p.moments[1],
                        .master = p.master,
                        .lr = lr,
                        .beta1 = options_.beta1,
                        .beta2 = options_.beta2,
                        .eps = options_.eps,
                        .weight_decay = p.decay.rate,
                        .decoupled = options_.decoupled,
                        .step = step_,
                        .factor = factor,
                        .undecayed = p.decay.undecayed,
                        .rounding_keys = p.rounding_keys,
                        .frozen = options_.freeze_step > 0 && step_ > options_.freeze_step ? options_.freeze_step : 0});
    });
  }

  double learning_rate() const override { return options_.lr; }
  int64_t updates() const override { return step_; }
  void set_updates(int64_t updates) override { step_ = updates; }
  std::vector<State> StateOf(size_t i) const override { return states_.Of(i); }
  std::vector<StateShape> StatesOf(const nn::Parameter& parameter) const override {
    return states_.ShapesOf(parameter);
  }

 private:
  const AdamOptions options_;
  States states_;
  int64_t step_ = 0;  // updates done
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const AdamOptions& options, const Offload& offload,
                                    const LowPrecisionUpdate& low_precision) {
  return std::make_unique<Adam>(options, offload, low_precision);
}

}  // namespace twofold::optim
