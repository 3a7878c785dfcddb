#include "strategies/compression/random_k.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/strings.h"
#include "core/optim/clip.h"

namespace twofold {
namespace {

class RandomK final : public Reducer {
 public:
  RandomK(nn::Context& ctx, const Bucket& bucket, const RandomKOptions& options)
      : groups_(bucket.groups),
        options_(options),
        wide_(ops::AccumulationType(bucket.dtype)),
        shards_(groups_.scatter == nullptr ? 1 : groups_.scatter->size()),
        shard_(bucket.numel / shards_),
        chosen_(std::clamp<int64_t>(std::llround(options.density * static_cast<double>(shard_)), 1, shard_)),
        key_(MakeKey(ctx.seed, StrCat("random_k bucket ", bucket.index))),
        feedback_(ctx, bucket.numel, wide_, options.feedback) {}

  void BeginStep(nn::Context& ctx, double loss_scale) override {
    round_ = 0, scale_ = loss_scale;
    feedback_.BeginStep(ctx);
  }

  Work Start(nn::Context& ctx, Tensor in, Tensor out, bool) override {
    const nn::CodecWork work(ctx);
    out_ = std::move(out);
    places_ = New(ctx, chosen_, DType::kI32);
    const uint64_t draw = MakeKey(key_.value, static_cast<uint64_t>(ctx.step)).value;
    ctx.Launch(ops::RandomPlaces{.out = places_, .n = shard_, .key = MakeKey(draw, static_cast<uint64_t>(round_++))});
    const Tensor total = feedback_.Add(ctx, in, scale_);
    Tensor values = New(ctx, shards_ * chosen_, wide_);
    for (int j = 0; j < shards_; ++j) Choose(ctx, total.Slice(j * shard_, shard_), values.Slice(j * chosen_, chosen_));
    if (options_.feedback.may_skip) PassOnWhatIsNotFinite(ctx, total, values);
    feedback_.Encoded(ctx, scale_);
    if (!options_.feedback.enabled)
      ctx.Launch(ops::Scale{.x = values, .factor = static_cast<double>(shard_) / static_cast<double>(chosen_)});
    work.Encoded(in.bytes(), values.bytes());
    return Send(ctx, std::move(values));
  }

  std::optional<Work> Next(nn::Context&) override {
    if (!std::exchange(replicates_, false)) return std::nullopt;
    return groups_.replicate->AllReduce(values_, ReduceOp::kAvg);
  }

  Tensor Mean(nn::Context& ctx) override {
    const nn::CodecWork work(ctx);
    Tensor mean = std::exchange(out_, Tensor());
    if (mean.empty()) mean = New(ctx, shard_, wide_);
    ctx.Launch(ops::Fill{.out = mean, .value = 0});
    ctx.Launch(ops::ScatterElements{
        .values = std::exchange(values_, Tensor()), .indices = std::exchange(places_, Tensor()), .out = mean});
    return mean;
  }

  // All ranks draw the same elements of a bucket.
  bool elementwise() const override { return true; }

  void Skip(nn::Context&) override { feedback_.Skip(); }

  bool has_next() const override { return groups_.scatter != nullptr && groups_.replicate != nullptr; }

  std::vector<ReducerState> State() const override {
    if (feedback_.residual().empty()) return {};
    return {{.name = "residual", .tensor = feedback_.residual(), .weight = 1.0 / groups_.size()}};
  }

 private:
  Tensor New(nn::Context& ctx, int64_t numel, DType type) const {
    return ctx.device.NewTensor(Shape{numel}, type, Category::kCommunication);
  }

  // Takes the chosen elements of a shard. The others are its residual.
  void Choose(nn::Context& ctx, const Tensor& shard, const Tensor& values) {
    ctx.Launch(ops::GatherElements{.in = shard, .indices = places_, .values = values});
    if (options_.feedback.enabled) ctx.Launch(ops::ScatterElements{.values = {}, .indices = places_, .out = shard});
  }

  // A gradient that is not finite must make the mean so, even if it is not chosen: all ranks then skip the step.
  void PassOnWhatIsNotFinite(nn::Context& ctx, const Tensor& total, const Tensor& values) {
    const Tensor zero = optim::SquaredNorm(ctx, std::array{total});
    ctx.Launch(ops::Scale{.x = zero, .factor = 0});
    for (int j = 0; j < shards_; ++j) ctx.Launch(ops::AddTo{.in = zero, .out = values.Slice(j * chosen_, 1)});
  }

  Work Send(nn::Context& ctx, Tensor values) {
    if (groups_.scatter == nullptr) {
      values_ = std::move(values);
      return groups_.replicate->AllReduce(values_, ReduceOp::kAvg);
    }
    replicates_ = has_next();
    values_ = New(ctx, chosen_, wide_);
    return groups_.scatter->ReduceScatter(values_, values, ReduceOp::kAvg);
  }

  const ReductionGroups groups_;
  const RandomKOptions options_;
  const DType wide_;
  const int shards_;
  const int64_t shard_, chosen_;  // elements of a shard, and those of them that are sent
  const PhiloxKey key_;
  ErrorFeedback feedback_;
  int64_t round_ = 0;  // reductions of this step so far
  double scale_ = 1;   // the loss scale

  // Of the reduction in flight:
  Tensor out_, places_, values_;
  bool replicates_ = false;  // the next message is the all-reduce
};

}  // namespace

MakeReducer RandomKReducers(const RandomKOptions& options) {
  return [options](nn::Context& ctx, const Bucket& bucket) { return std::make_unique<RandomK>(ctx, bucket, options); };
}

}  // namespace twofold
