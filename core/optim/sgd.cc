// Stochastic gradient descent with momentum as PyTorch defines it (Sutskever et al. 2013, but with the rate outside the
// velocity):
//     g = gradient + decay * p;  v = momentum * v + g;  p -= lr * (nesterov ? g + momentum * v : v)
#include "core/optim/optimizer.h"
#include "core/optim/states.h"

namespace twofold::optim {
namespace {

class Sgd final : public Optimizer {
 public:
  Sgd(const SgdOptions& options, const Offload& offload, const LowPrecisionUpdate& low_precision)
      : options_(options),
        states_(options.momentum != 0 ? std::vector<std::string>{"momentum_buffer"} : std::vector<std::string>{},
                offload, low_precision) {
    TWOFOLD_CHECK(!options.nesterov || options.momentum > 0, "Nesterov's rule needs momentum");
  }

  void Attach(nn::Context& ctx, std::span<const Slice> slices) override {
    states_.Attach(ctx, slices, options_.weight_decay);
  }

  void Step(nn::Context& ctx, double lr, const Tensor& factor) override {
    ++updates_;
    states_.Update([&](const Piece& p) {
      ctx.Launch(ops::SgdStep{.param = p.data,
                              .grad = p.gradient,
                              .momentum = p.moments.empty() ? Tensor() : p.moments[0],
                              .master = p.master,
                              .lr = lr,
                              .momentum_factor = options_.momentum,
                              .weight_decay = p.decay.rate,
                              .nesterov = options_.nesterov,
                              .factor = factor,
                              .undecayed = p.decay.undecayed,
                              .rounding_keys = p.rounding_keys,
                              .step = updates_});
    });
  }

  double learning_rate() const override { return options_.lr; }
  int64_t updates() const override { return updates_; }
  void set_updates(int64_t updates) override { updates_ = updates; }
  std::vector<State> StateOf(size_t i) const override { return states_.Of(i); }
  std::vector<StateShape> StatesOf(const nn::Parameter& parameter) const override {
    return states_.ShapesOf(parameter);
  }

 private:
  const SgdOptions options_;
  States states_;
  int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const SgdOptions& options, const Offload& offload,
                                   const LowPrecisionUpdate& low_precision) {
  return std::make_unique<Sgd>(options, offload, low_precision);
}

}  // namespace twofold::optim
