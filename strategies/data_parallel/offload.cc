#include "strategies/data_parallel/offload.h"

#include <utility>

namespace twofold {

void HostShards::Move(Tensor& shard) {
  const Tensor made =
      std::exchange(shard, ctx_.device.NewHostTensor(shard.shape(), shard.dtype(), Category::kParameters));
  out_.Copy(made, shard).WaitOn(ctx_.device.compute());
}

Tensor HostShards::NewGradients(const Shape& shape, DType dtype) const {
  return ctx_.device.NewHostTensor(shape, dtype, Category::kGradients);
}

void HostShards::Fetch(ShardedUnit& unit) {
  if (!unit.parameters.empty() || holds(unit)) return;
  Tensor shard =
      ctx_.device.NewTensor(unit.shard.shape(), unit.shard.dtype(), Category::kParameters, "shard of parameters");
  Transfer copy = in_.Copy(unit.shard, shard);
  staged_[&unit] = {std::move(shard), std::move(copy)};
}

void HostShards::FetchNext(const std::vector<ShardedUnit*>& order, size_t place) {
  const size_t chunk = place < order.size() ? order[place]->chunk : 0;
  while (place < order.size() && !order[place]->parameters.empty()) ++place;
  if (place < order.size() && order[place]->chunk == chunk) Fetch(*order[place]);
}

Tensor HostShards::Take(ShardedUnit& unit) {
  Fetch(unit);
  Staged staged = std::move(staged_.extract(&unit).mapped());
  staged.copy.WaitOn(ctx_.device.compute());
  return std::move(staged.shard);
}

class HostShards::Home final : public GradientHome {
 public:
  Home(HostShards& host, Tensor gradients, DType wire) : host_(host), gradients_(std::move(gradients)), wire_(wire) {}

  void BeginStep() override { holds_ = false; }
  Tensor Begin() override { return New(wire_); }  // outlives the whole gradients
  // Brings the earlier sum to the device while the mean is on its way.
  void Started() override {
    if (!holds_) return;
    before_ = New(gradients_.dtype());
    host_.in_.After(host_.storing_);
    arriving_ = host_.in_.Copy(gradients_, before_);
  }
  Tensor Add(Tensor mean, bool) override {
    if (holds_) {
      std::exchange(arriving_, Transfer()).WaitOn(host_.ctx_.device.compute());
      host_.ctx_.Launch(ops::AddTo{.in = std::move(mean), .out = before_});
      return std::exchange(before_, Tensor());
    }
    holds_ = true;
    if (mean.dtype() == gradients_.dtype()) return mean;
    Tensor cast = New(gradients_.dtype());
    host_.ctx_.Launch(ops::Cast{.in = std::move(mean), .out = cast});
    return cast;
  }
  void Store(Tensor sum) override { host_.storing_ = host_.out_.Copy(sum, gradients_); }

 private:
  Tensor New(DType dtype) const {
    return host_.ctx_.device.NewTensor(gradients_.shape(), dtype, Category::kGradients, "shard of gradients");
  }
  HostShards& host_;
  const Tensor gradients_;
  const DType wire_;
  bool holds_ = false;  // means of the step's earlier micro-batches
  Tensor before_;       // they, on the device
  Transfer arriving_;
};

std::unique_ptr<GradientHome> HostShards::HomeOf(Tensor gradients, DType wire) {
  return std::make_unique<Home>(*this, std::move(gradients), wire);
}

}  // namespace twofold
