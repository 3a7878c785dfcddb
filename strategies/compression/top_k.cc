#include "strategies/compression/top_k.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/optim/clip.h"

namespace twofold {
namespace {

class TopK final : public Codec {
 public:
  TopK(nn::Context& ctx, const Bucket& bucket, const TopKOptions& options)
      : options_(options), wide_(ops::AccumulationType(bucket.dtype)), ranks_(bucket.groups.size()) {
    if (options.momentum == 0) return;
    momentum_ = ctx.device.NewTensor(Shape{bucket.numel}, wide_, Category::kCommunication);
    ctx.Launch(ops::Fill{.out = momentum_, .value = 0});
  }

  EncodedSize SizeOf(int64_t numel, int64_t step) const override {
    const int64_t chosen = ChosenOf(options_, numel, step);
    return {.body = chosen, .side = chosen, .body_type = wide_, .side_type = DType::kI32};
  }

  // Lin et al., equation 4 and section 3.2: what is added up is the momentum of the clipped local gradient.
  Tensor Prepare(nn::Context& ctx, Tensor in) override {
    if (options_.clip_norm > 0) {
      const Tensor squares = optim::SquaredNorm(ctx, std::array{in});
      const double most = options_.clip_norm / std::sqrt(static_cast<double>(ranks_));
      ctx.Launch(ops::Scale{.x = in, .by = optim::ClipFactor(ctx, squares, most)});
    }
    if (momentum_.empty()) return in;
    ctx.Launch(ops::Scale{.x = momentum_, .factor = options_.momentum});
    ctx.Launch(ops::AddTo{.in = in, .out = momentum_});
    return momentum_;
  }

  void Encode(nn::Context& ctx, const Tensor& in, const Tensor& residual, const Encoded& out,
              const Place& place) override {
    ctx.Launch(ops::TopK{.in = in, .values = out.body, .indices = out.side, .residual = residual});
    if (momentum_.empty() || place.stage > 0) return;
    // Momentum factor masking: an element that is sent starts anew, so that it does not go on in an old direction.
    const Tensor of = momentum_.Slice(place.first, in.numel());
    ctx.Launch(ops::ScatterElements{.values = {}, .indices = out.side, .out = of});
  }

  void Decode(nn::Context& ctx, const Encoded& in, const Tensor& out, bool accumulate) override {
    if (!accumulate) ctx.Launch(ops::Fill{.out = out, .value = 0});
    ctx.Launch(ops::ScatterElements{.values = in.body, .indices = in.side, .out = out, .accumulate = true});
  }

  void Scale(nn::Context& ctx, const Encoded& in, double factor) override {
    ctx.Launch(ops::Scale{.x = in.body, .factor = factor});
  }

  std::vector<ReducerState> State() const override {
    if (momentum_.empty()) return {};
    return {{.name = "momentum", .tensor = momentum_, .weight = 1.0 / ranks_}};
  }

  bool encodes_sums() const override { return false; }  // a sum has more than k elements that are not zero

 private:
  const TopKOptions options_;
  const DType wide_;
  const int ranks_;
  Tensor momentum_;
};

}  // namespace

int64_t ChosenOf(const TopKOptions& options, int64_t numel, int64_t step) {
  double density = options.density;
  if (step < options.warmup_steps && density < 0.25) {
    const double done = static_cast<double>(step) / static_cast<double>(options.warmup_steps);
    density = 0.25 * std::pow(density / 0.25, done);
  }
  const auto chosen = static_cast<int64_t>(std::round(density * static_cast<double>(numel)));
  return std::clamp<int64_t>(chosen, 1, std::max<int64_t>(numel, 1));
}

MakeCodec TopKCodecs(const TopKOptions& options) {
  return [options](nn::Context& ctx, const Bucket& bucket) { return std::make_unique<TopK>(ctx, bucket, options); };
}

}  // namespace twofold
