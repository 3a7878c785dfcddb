#include "strategies/compression/power_sgd.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/strings.h"

namespace twofold {
namespace {

// Where a compressed parameter is in the bucket and in the flat tensors of factors.
struct Matrix {
  const nn::Parameter* parameter;
  int64_t offset, rows, columns, rank;
  int64_t p, q;
  Tensor Of(const Tensor& bucket) const { return bucket.Slice(offset, Shape{rows, columns}); }
  Tensor P(const Tensor& flat) const { return flat.Slice(p, Shape{rows, rank}); }
  Tensor Q(const Tensor& flat) const { return flat.Slice(q, Shape{columns, rank}); }
};

// Elements that are sent as they are.
struct Rest {
  int64_t offset, p, count;
};

class PowerSgd final : public Reducer {
 public:
  PowerSgd(nn::Context& ctx, const Bucket& bucket, const PowerSgdOptions& options)
      : options_(options),
        wide_(ops::AccumulationType(bucket.dtype)),
        numel_(bucket.numel),
        shard_(bucket.groups.scatter == nullptr ? numel_ : numel_ / bucket.groups.scatter->size()),
        first_(bucket.groups.scatter == nullptr ? 0 : bucket.groups.scatter->rank() * shard_),
        ranks_(bucket.groups.size()),
        feedback_(ctx, numel_, wide_, options.feedback) {
    for (ProcessGroup* group : {bucket.groups.scatter, bucket.groups.replicate}) {
      if (group != nullptr) groups_.push_back(group);
    }
    Divide(bucket);
    q_ = New(ctx, q_numel_), q_before_ = options.feedback.may_skip ? New(ctx, q_numel_) : Tensor();
    if (q_numel_ > 0)
      ctx.Launch(ops::RandomFill{.out = q_, .key = MakeKey(ctx.seed, StrCat("power_sgd bucket ", bucket.index))});
  }

  void BeginStep(nn::Context& ctx, double loss_scale) override {
    scale_ = loss_scale;
    feedback_.BeginStep(ctx);
    if (!q_before_.empty()) ctx.Launch(ops::Cast{.in = q_, .out = q_before_});
  }

  Work Start(nn::Context& ctx, Tensor in, Tensor out, bool) override {
    const nn::CodecWork work(ctx);
    out_ = std::move(out), group_ = 0;
    whole_ = ctx.step < options_.start_step || matrices_.empty();
    total_ = feedback_.Add(ctx, in, scale_);
    sends_q_ = false;
    if (whole_) {
      sent_ = New(ctx, numel_);
      ctx.Launch(ops::Cast{.in = total_, .out = sent_});
    } else {
      sent_ = New(ctx, p_numel_);
      for (const Matrix& m : matrices_) ctx.Launch(ops::MatMul{.a = m.Of(total_), .b = m.Q(q_), .out = m.P(sent_)});
      for (const Rest& r : rest_)
        ctx.Launch(ops::Cast{.in = total_.Slice(r.offset, r.count), .out = sent_.Slice(r.p, r.count)});
    }
    work.Encoded(in.bytes(), whole_ ? sent_.bytes() : sent_.bytes() + q_.bytes());
    return Send();
  }

  std::optional<Work> Next(nn::Context& ctx) override {
    const nn::CodecWork work(ctx);
    if (++group_ < groups_.size()) return Send();
    if (whole_ || sends_q_) return std::nullopt;
    p_ = std::exchange(sent_, q_);
    for (const Matrix& m : matrices_) {
      ctx.Launch(ops::Orthogonalise{.x = m.P(p_)});
      ctx.Launch(ops::MatMul{.a = m.Of(total_), .b = m.P(p_), .out = m.Q(q_), .transpose_a = true});
    }
    sends_q_ = true, group_ = 0;
    return Send();
  }

  Tensor Mean(nn::Context& ctx) override {
    const nn::CodecWork work(ctx);
    const bool here = shard_ == numel_ && !out_.empty() && out_.dtype() == wide_;
    Tensor mean = whole_ ? std::exchange(sent_, Tensor()) : here ? out_ : New(ctx, numel_);
    if (!whole_) Decode(ctx, mean);
    if (whole_ && !feedback_.residual().empty()) ctx.Launch(ops::Fill{.out = feedback_.residual(), .value = 0});
    feedback_.Encoded(ctx, scale_);
    sent_ = p_ = total_ = out_ = Tensor();
    return mean.Slice(first_, shard_);
  }

  void Skip(nn::Context&) override {
    feedback_.Skip();
    if (!q_before_.empty()) std::swap(q_, q_before_);
  }

  bool has_next() const override { return true; }

  std::vector<ReducerState> State() const override {
    std::vector<ReducerState> states;
    if (!feedback_.residual().empty())
      states.push_back({.name = "residual", .tensor = feedback_.residual(), .weight = 1.0 / ranks_});
    for (const Matrix& m : matrices_)
      states.push_back({.name = "factors", .tensor = m.Q(q_), .parameter = m.parameter});
    return states;
  }

 private:
  Tensor New(nn::Context& ctx, int64_t numel) const {
    return numel == 0 ? Tensor() : ctx.device.NewTensor(Shape{numel}, wide_, Category::kCommunication);
  }

  // Decides which parameters are compressed, and lays out the factors. Padding is part of the rest.
  void Divide(const Bucket& bucket) {
    int64_t at = 0;  // in the bucket
    const auto add_rest = [&](int64_t end) {
      if (end > at) rest_.push_back({at, p_numel_, end - at});
      p_numel_ += end - at;
      at = end;
    };
    for (const optim::SlicePart& part : bucket.whole) {
      const Shape& shape = part.parameter->shape();
      if (shape.rank() < 2 || part.count != shape.numel()) continue;
      const int64_t columns = shape[shape.rank() - 1], rows = shape.numel() / columns,
                    rank = std::min({options_.rank, rows, columns});
      const auto factors = static_cast<double>(rank * (rows + columns));
      if (static_cast<double>(rows * columns) < options_.min_compression * factors) continue;
      add_rest(part.offset);
      matrices_.push_back({part.parameter, part.offset, rows, columns, rank, p_numel_, q_numel_});
      p_numel_ += rows * rank, q_numel_ += columns * rank;
      at += part.count;
    }
    add_rest(numel_);
  }

  Work Send() { return groups_[group_]->AllReduce(sent_, ReduceOp::kAvg); }

  // Writes P Q^T and the rest to `mean`, and leaves in the residual what they lack.
  void Decode(nn::Context& ctx, const Tensor& mean) {
    const Tensor& residual = feedback_.residual();
    for (const Matrix& m : matrices_)
      ctx.Launch(ops::MatMul{.a = m.P(p_), .b = m.Q(q_), .out = m.Of(mean), .transpose_b = true});
    for (const Rest& r : rest_)
      ctx.Launch(ops::Cast{.in = p_.Slice(r.p, r.count), .out = mean.Slice(r.offset, r.count)});
    if (residual.empty()) return;
    for (const Matrix& m : matrices_) {
      ctx.Launch(ops::Scale{.x = m.P(p_), .factor = -1});
      ctx.Launch(
          ops::MatMul{.a = m.P(p_), .b = m.Q(q_), .out = m.Of(residual), .transpose_b = true, .accumulate = true});
    }
    for (const Rest& r : rest_) ctx.Launch(ops::Fill{.out = residual.Slice(r.offset, r.count), .value = 0});
  }

  const PowerSgdOptions options_;
  const DType wide_;
  const int64_t numel_, shard_, first_;  // of the bucket, and of what this rank keeps of it
  const int ranks_;
  std::vector<ProcessGroup*> groups_;  // over which a mean is taken, one after the other
  std::vector<Matrix> matrices_;
  std::vector<Rest> rest_;
  int64_t p_numel_ = 0, q_numel_ = 0;
  ErrorFeedback feedback_;
  Tensor q_, q_before_;
  double scale_ = 1;  // the loss scale

  // Of the reduction in flight:
  bool whole_ = false, sends_q_ = false;
  size_t group_ = 0;
  Tensor total_, sent_, p_, out_;
};

}  // namespace

MakeReducer PowerSgdReducers(const PowerSgdOptions& options) {
  return [options](nn::Context& ctx, const Bucket& bucket) { return std::make_unique<PowerSgd>(ctx, bucket, options); };
}

}  // namespace twofold
