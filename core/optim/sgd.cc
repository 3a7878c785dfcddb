// Stochastic gradient descent with momentum as PyTorch defines it (Sutskever et al. 2013, the rate outside
// the velocity):
//     g = gradient + decay * p;  v = momentum * v + g;  p -= lr * (nesterov ? g + momentum * v : v)
#include "core/optim/optimizer.h"
#include "core/optim/state.h"

namespace twofold::optim {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdOptions& options) : options_(options) {
    TWOFOLD_CHECK(!options.nesterov || options.momentum > 0, "Nesterov's rule needs momentum");
  }

  void Attach(nn::Context& ctx, std::span<const Slice> slices) override {
    TWOFOLD_CHECK(entries_.empty(), "slices are attached once");
    for (const Slice& slice : slices) {
      entries_.push_back({slice, options_.momentum != 0 ? NewMoment(ctx, slice) : Tensor(), NewMaster(ctx, slice),
                          DecayOf(slice, options_.weight_decay)});
    }
  }

  void Step(nn::Context& ctx, double lr, const Tensor& factor) override {
    ++updates_;
    for (const Entry& e : entries_) {
      if (e.slice.data.numel() == 0) continue;
      ctx.Launch(ops::SgdStep{.param = e.slice.data, .grad = e.slice.gradient, .momentum = e.momentum,
                              .master = e.master, .lr = lr, .momentum_factor = options_.momentum,
                              .weight_decay = e.decay.rate, .nesterov = options_.nesterov, .factor = factor,
                              .undecayed = e.decay.undecayed});
    }
  }

  double learning_rate() const override { return options_.lr; }
  int64_t updates() const override { return updates_; }
  void set_updates(int64_t updates) override { updates_ = updates; }
  std::vector<State> StateOf(size_t i) const override {
    std::vector<State> state;
    if (!entries_[i].momentum.empty()) state.push_back({"momentum_buffer", entries_[i].momentum});
    if (!entries_[i].master.empty()) state.push_back({"master", entries_[i].master});
    return state;
  }

 private:
  struct Entry { Slice slice; Tensor momentum, master; Decay decay; };
  SgdOptions options_;
  std::vector<Entry> entries_;
  int64_t updates_ = 0;
};

}  // namespace

std::unique_ptr<Optimizer> MakeSgd(const SgdOptions& options) { return std::make_unique<Sgd>(options); }

}  // namespace twofold::optim
