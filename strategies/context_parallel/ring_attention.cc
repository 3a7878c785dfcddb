#include "strategies/context_parallel/ring_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace twofold {
namespace {

enum MessageTag : Tag { kKeys, kGradients };

Shape WithLast(const Tensor& x, int64_t last) { return Shape{x.dim(0), x.dim(1), last}; }

}  // namespace

ops::AttentionBlock RingStep(const nn::Heads& heads, const ZigZag& place, int step, int64_t tokens) {
  const int64_t half = tokens / 2;
  ops::AttentionBlock block{
      .heads = heads.queries, .kv_heads = heads.keys, .head_dim = heads.width, .queries = tokens, .keys = tokens};
  if (step == 0) {
    block.causal = true;
  } else if (step <= place.rank) {  // keys of a rank before this one
    block.keys = half;
  } else {
    block.first_query = half, block.queries = half;
  }
  return block;
}

// A contiguous copy of this rank's keys and values.
Tensor RingAttention::OwnKeys(nn::Context& ctx, const Tensor& qkv) const {
  Tensor kv = ctx.Activation(WithLast(qkv, key_columns()), qkv.dtype());
  ctx.Launch(
      ops::CopyColumns{.in = qkv, .out = kv, .in_column = heads_.queries * heads_.width, .columns = key_columns()});
  return kv;
}

// Ranks are alike, although each has its own part of the mask, if it makes no difference to the device whether all
// queries meet half of the keys or half of the queries meet all keys: both are the same number of products. If one of
// them takes longer, the slowest rank is the one that has only such blocks: the first or the last of the ring.
void RingAttention::TellRanksApart(const nn::Context& ctx, const ops::AttentionBlockForward& whole) {
  if (ring_.size() == 1 || whole.q.shape() == told_) return;
  told_ = whole.q.shape();
  const int last = ring_.size() - 1;
  const auto half_queries_take_longer = [&](auto op) {
    op.block = RingStep(heads_, Place(0), 1, whole.q.dim(1));
    auto half_keys = op;
    half_keys.block = RingStep(heads_, Place(last), 1, whole.q.dim(1));
    return ctx.device.Difference(op, half_keys);
  };
  const std::optional<double> forward = half_queries_take_longer(whole),
                              backward = half_queries_take_longer(ops::AttentionBlockBackward{.q = whole.q,
                                                                                              .kv = whole.kv,
                                                                                              .out = whole.out,
                                                                                              .lse = whole.lse,
                                                                                              .dout = whole.out,
                                                                                              .dq = {},
                                                                                              .dkv = {},
                                                                                              .block = {},
                                                                                              .accumulate = true});
  if (forward == 0.0 && backward == 0.0) return;
  std::vector<int> kinds(static_cast<size_t>(ring_.size()));
  std::iota(kinds.begin(), kinds.end(), 0);
  const std::string why = "ranks along cp compute different parts of the causal mask";
  if (!forward || !backward) return ring_.RanksDiffer(kinds, why);
  if (!ring_.RanksDifferInTime(kinds, std::max(std::abs(*forward), std::abs(*backward)), why)) return;
  forward_ = *forward > 0 ? 0 : last, backward_ = *backward > 0 ? 0 : last;
}

Work RingAttention::Pass(nn::Context& ctx, std::span<const P2p> messages) {
  if (messages.empty()) return Work();
  Work work = ring_.Batch(messages);
  if (!overlap_) work.WaitOn(ctx.stream);
  return work;
}

Tensor RingAttention::Forward(nn::Context& ctx, const Tensor& qkv, nn::Saved& saved) {
  const int64_t tokens = qkv.dim(1);
  TWOFOLD_CHECK_EQ(tokens % 2, 0);
  const DType wide = ops::AccumulationType(qkv.dtype());
  Tensor out = ctx.Activation(WithLast(qkv, heads_.queries * heads_.width), wide);
  Tensor lse = ctx.Activation(Shape{qkv.dim(0), heads_.queries, tokens}, wide);
  Tensor kv = OwnKeys(ctx, qkv);
  TellRanksApart(ctx, {.q = qkv, .kv = kv, .out = out, .lse = lse, .block = {}, .merge = true});
  for (int step = 0; step < ring_.size(); ++step) {
    Tensor received;
    std::vector<P2p> messages;
    if (step + 1 < ring_.size()) {
      received = ctx.Activation(kv.shape(), kv.dtype());
      messages = {{P2p::kSend, kv, next(), kKeys}, {P2p::kRecv, received, previous(), kKeys}};
    }
    Work passing = Pass(ctx, messages);
    messages.clear();
    ctx.Launch(ops::AttentionBlockForward{.q = qkv,
                                          .kv = kv,
                                          .out = out,
                                          .lse = lse,
                                          .block = RingStep(heads_, Place(forward_), step, tokens),
                                          .merge = step > 0});
    passing.WaitOn(ctx.stream);
    kv = std::move(received);
  }
  if (wide != qkv.dtype()) {
    const Tensor sum = std::exchange(out, ctx.Activation(out.shape(), qkv.dtype()));
    ctx.Launch(ops::Cast{.in = sum, .out = out});
  }
  saved[kQkv] = qkv;
  saved[kOut] = out;
  saved[kLse] = std::move(lse);
  return out;
}

// The gradients of a rank's keys and values start at the next rank and follow the keys around the ring; each rank adds
// its part. After the last step they return to their rank and are added to the part that it computed in step 0.
Tensor RingAttention::BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) {
  const Tensor qkv = saved.Take(kQkv), out = saved.Take(kOut), lse = saved.Take(kLse);
  const DType wide = ops::AccumulationType(qkv.dtype());
  const Tensor dqkv = ctx.Activation(qkv.shape(), qkv.dtype());
  Tensor sum = wide == qkv.dtype() ? dqkv : ctx.Activation(qkv.shape(), wide);
  Tensor kv = OwnKeys(ctx, qkv), dkv;  // dkv: gradient of the previous step's keys, summed over all ranks so far
  for (int step = 0; step < ring_.size(); ++step) {
    Tensor received, others, part = sum;
    std::vector<P2p> messages;
    if (step + 1 < ring_.size()) {
      received = ctx.Activation(kv.shape(), kv.dtype());
      messages = {{P2p::kSend, kv, next(), kKeys}, {P2p::kRecv, received, previous(), kKeys}};
    }
    if (step > 0) {
      part = ctx.Activation(kv.shape(), wide);
      ctx.Launch(ops::Fill{.out = part, .value = 0});
    }
    if (step > 1) {  // receive the gradient of this step's keys, summed over the ranks before this one
      others = ctx.Activation(kv.shape(), wide);
      messages.push_back({P2p::kSend, dkv, next(), kGradients});
      messages.push_back({P2p::kRecv, others, previous(), kGradients});
    }
    Work passing = Pass(ctx, messages);
    messages.clear();
    ctx.Launch(ops::AttentionBlockBackward{.q = qkv,
                                           .kv = kv,
                                           .out = out,
                                           .lse = lse,
                                           .dout = dy,
                                           .dq = sum,
                                           .dkv = part,
                                           .block = RingStep(heads_, Place(backward_), step, qkv.dim(1)),
                                           .accumulate = step > 0});
    passing.WaitOn(ctx.stream);
    if (step > 1) ctx.Launch(ops::AddTo{.in = others, .out = part});
    kv = std::move(received);
    if (step > 0) dkv = std::move(part);
  }
  if (ring_.size() > 1) {
    Tensor home = ctx.Activation(dkv.shape(), wide);
    const P2p messages[] = {{P2p::kSend, dkv, next(), kGradients}, {P2p::kRecv, home, previous(), kGradients}};
    ring_.Batch(messages).WaitOn(ctx.stream);
    ctx.Launch(ops::CopyColumns{.in = home,
                                .out = sum,
                                .out_column = heads_.queries * heads_.width,
                                .columns = key_columns(),
                                .accumulate = true});
  }
  if (wide != qkv.dtype()) ctx.Launch(ops::Cast{.in = sum, .out = dqkv});
  return dqkv;
}

}  // namespace twofold
