#include "strategies/expert_parallel/experts.h"

#include <utility>

#include "core/base/check.h"
#include "strategies/expert_parallel/dropless.h"
#include "strategies/groups/group_tags.h"

namespace twofold {
namespace {

// x, y: [experts, C, hidden], the slots of this rank's tokens for all experts. The child module holds this rank's
// experts, or its part of them, and gets the slots of all senders: [senders, experts / ep, C, hidden].
class ExpertParallel final : public nn::Composite {
 public:
  ExpertParallel(const ExpertGroups& groups, std::unique_ptr<nn::Module> experts) : groups_(groups) {
    AddChild("", std::move(experts));
  }

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    Tensor y = Apply(0, ctx, AllGatherSlots(ctx, ExchangeSlots(ctx, x)), saved);
    return ReturnSlots(ctx, ReduceSlots(ctx, std::move(y)), x.shape());
  }
  std::string_view kind() const override { return kExpertsKind; }

 protected:
  Tensor Propagate(const Backprop& back, Tensor dy) override {
    const Shape shape = dy.shape();
    Tensor slots = ExchangeSlots(back.ctx, std::exchange(dy, Tensor()));
    slots = AllGatherSlots(back.ctx, std::move(slots));
    return ReturnSlots(back.ctx, ReduceSlots(back.ctx, back(0, std::move(slots))), shape);
  }

 private:
  // Sends block i of the slots to rank i: [experts, C, hidden] becomes [ep, experts / ep, C, hidden], or the reverse.
  Tensor ExchangeSlots(nn::Context& ctx, Tensor slots) const {
    const int64_t ep = groups_.experts.size();
    const Shape shape = slots.shape();
    if (ep == 1) return slots;
    Tensor out = ctx.Activation(Shape{ep, shape[0] * (shape.rank() == 4 ? shape[1] : 1) / ep, shape[-2], shape[-1]},
                                slots.dtype());
    groups_.experts.AllToAll(out, slots).WaitOn(ctx.stream);
    return out;
  }
  Tensor ReturnSlots(nn::Context& ctx, Tensor slots, const Shape& shape) const {
    return ExchangeSlots(ctx, std::move(slots)).View(shape);
  }

  bool gathers() const { return groups_.sequence_parallel && groups_.tensor.size() > 1; }
  // Gathers the slots on all ranks along tp, each of which holds a part of every expert. Without sequence parallelism
  // they already have the same slots.
  Tensor AllGatherSlots(nn::Context& ctx, Tensor slots) const {
    if (!gathers()) return slots;
    Tensor out = ctx.Activation(Senders(slots, groups_.tensor.size()), slots.dtype());
    groups_.tensor.AllGather(out, slots).WaitOn(ctx.stream);
    return out;
  }
  // Sums the results over these parts: for all slots, or with sequence parallelism for this rank's own slots.
  Tensor ReduceSlots(nn::Context& ctx, Tensor slots) const {
    if (groups_.tensor.size() == 1) return slots;
    if (!gathers()) {
      groups_.tensor.AllReduce(slots, ReduceOp::kSum).WaitOn(ctx.stream);
      return slots;
    }
    Tensor out = ctx.Activation(Shape{slots.dim(0) / groups_.tensor.size(), slots.dim(1), slots.dim(2), slots.dim(3)},
                                slots.dtype());
    groups_.tensor.ReduceScatter(out, slots, ReduceOp::kSum).WaitOn(ctx.stream);
    return out;
  }
  static Shape Senders(const Tensor& slots, int64_t times) {
    const int64_t senders = slots.shape().rank() == 4 ? slots.dim(0) : 1;
    return Shape{times * senders, slots.dim(-3), slots.dim(-2), slots.dim(-1)};
  }

  const ExpertGroups groups_;
};

// The rows of experts [first, first + count). Each expert has `parts` consecutive parts of `rows` rows, which are split
// evenly over the ranks of tp.
nn::ShardLayout ExpertRows(const Shape& whole, int64_t first, int64_t count, int parts, int64_t rows,
                           const ProcessGroup& tensor) {
  if (tensor.size() == 1) return nn::ShardLayout::Along(whole, 0, first * parts * rows, count * parts * rows);
  const int64_t share = rows / tensor.size();
  std::vector<nn::ShardLayout::Range> ranges;
  for (int64_t block = first * parts; block < (first + count) * parts; ++block)
    ranges.push_back({.first = block * rows + tensor.rank() * share, .count = share});
  return nn::ShardLayout::Rows(whole, ranges);
}

}  // namespace

std::unique_ptr<nn::Mixture> MakeExpertParallel(const nn::MixtureConfig& config, const ExpertGroups& groups) {
  const int64_t ep = groups.experts.size(), tp = groups.tensor.size();
  TWOFOLD_CHECK_EQ(config.experts % ep, 0);
  TWOFOLD_CHECK_EQ(config.ffn % tp, 0);
  const bool own_rows = groups.sequence_parallel && tp > 1;

  auto router = std::make_unique<nn::Linear>(config.Router());
  nn::Parameter& routing = *router->Parameters()[0];
  routing.set_shard_layout(nn::ShardLayout::Whole(routing.shape(), /*owned=*/groups.tensor.rank() == 0, kTensorTag,
                                                  /*partial=*/own_rows));

  nn::ExpertsConfig own = config.AllExperts();
  own.experts /= ep, own.ffn /= tp;
  own.gradient_factor = 1 / static_cast<double>(ep);
  auto experts = std::make_unique<nn::Experts>(own);
  const int64_t first = groups.experts.rank() * own.experts;
  nn::Parameter &gate_up = *experts->gate_up().weight(), &projection = *experts->projection().weight();
  gate_up.set_shard_layout(
      ExpertRows({config.experts * 2 * config.ffn, config.hidden}, first, own.experts, 2, config.ffn, groups.tensor));
  projection.set_shard_layout(
      ExpertRows({config.experts * config.ffn, config.hidden}, first, own.experts, 1, config.ffn, groups.tensor));
  for (nn::Parameter* p : {&gate_up, &projection})
    if (ep > 1) p->set_replicas(kExpertsTag);

  nn::MixtureConfig mixture = config;
  if (own_rows) mixture.aux_loss /= static_cast<double>(tp);  // gradients are summed over tp, and the loss is a mean
  mixture.rank = groups.experts.ranks()[static_cast<size_t>(groups.experts.rank())];
  std::unique_ptr<nn::Module> exchange;
  if (config.dropless)
    exchange = MakeDroplessExperts(mixture, groups, std::move(experts));
  else
    exchange = std::make_unique<ExpertParallel>(groups, std::move(experts));
  return std::make_unique<nn::Mixture>(mixture, std::move(router), std::move(exchange));
}

}  // namespace twofold
