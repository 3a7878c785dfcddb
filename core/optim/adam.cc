// Adam (Kingma and Ba 2015, algorithm 1) and AdamW (Loshchilov and Hutter 2019): see ops::AdamStep.
#include "core/optim/optimizer.h"
#include "core/optim/state.h"

namespace twofold::optim {
namespace {

class Adam final : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options) : options_(options) {}

  void Attach(nn::Context& ctx, std::span<const Slice> slices) override {
    TWOFOLD_CHECK(entries_.empty(), "slices are attached once");
    for (const Slice& slice : slices) {
      Tensor m = NewMoment(ctx, slice), v = NewMoment(ctx, slice);
      entries_.push_back({slice, std::move(m), std::move(v), NewMaster(ctx, slice), DecayOf(slice, options_.weight_decay)});
    }
  }

  void Step(nn::Context& ctx, double lr, const Tensor& factor) override {
    ++step_;
    for (const Entry& e : entries_) {
      if (e.slice.data.numel() == 0) continue;
      ctx.Launch(ops::AdamStep{.param = e.slice.data, .grad = e.slice.gradient, .m = e.m, .v = e.v,
                               .master = e.master, .lr = lr, .beta1 = options_.beta1, .beta2 = options_.beta2,
                               .eps = options_.eps, .weight_decay = e.decay.rate, .decoupled = options_.decoupled,
                               .step = step_, .factor = factor, .undecayed = e.decay.undecayed});
    }
  }

  double learning_rate() const override { return options_.lr; }
  int64_t updates() const override { return step_; }
  void set_updates(int64_t updates) override { step_ = updates; }
  std::vector<State> StateOf(size_t i) const override {
    std::vector<State> state = {{"exp_avg", entries_[i].m}, {"exp_avg_sq", entries_[i].v}};
    if (!entries_[i].master.empty()) state.push_back({"master", entries_[i].master});
    return state;
  }

 private:
  struct Entry { Slice slice; Tensor m, v, master; Decay decay; };
  AdamOptions options_;
  std::vector<Entry> entries_;
  int64_t step_ = 0;  // updates done
};

}  // namespace

std::unique_ptr<Optimizer> MakeAdam(const AdamOptions& options) { return std::make_unique<Adam>(options); }

}  // namespace twofold::optim
