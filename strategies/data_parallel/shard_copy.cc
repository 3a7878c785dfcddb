#include "strategies/data_parallel/shard_copy.h"

#include <utility>

namespace twofold {

ShardCopy::ShardCopy(nn::Context& ctx, const ParameterLayout& layout, ProcessGroup& shards, const optim::Optimizer& own,
                     std::unique_ptr<optim::Optimizer> copy)
    : ctx_(ctx), shards_(shards), own_(own), slices_(layout.Slices()), copy_(std::move(copy)) {
  const int before = (shards.rank() + shards.size() - 1) % shards.size();
  const std::vector<std::vector<optim::SlicePart>> parts = layout.PartsOfShard(before);
  for (size_t i = 0; i < slices_.size(); ++i) {
    const optim::Slice& mine = slices_[i];
    copies_.push_back({.name = mine.name,
                       .data = ctx.device.NewTensor(mine.data.shape(), mine.data.dtype(), Category::kParameters,
                                                    "copy of another's shard"),
                       .gradient = ctx.device.NewTensor(mine.gradient.shape(), mine.gradient.dtype(),
                                                        Category::kGradients, "copy of another's shard"),
                       .parts = parts[i]});
  }
  std::vector<Tensor> data, copied;
  for (const optim::Slice& slice : slices_) data.push_back(slice.data);
  for (const optim::Slice& slice : copies_) copied.push_back(slice.data);
  Pass(data, copied);  // masters are made from the data
  copy_->Attach(ctx, copies_);
}

void ShardCopy::Pass(const std::vector<Tensor>& mine, const std::vector<Tensor>& others) {
  const int next = (shards_.rank() + 1) % shards_.size(),
            before = (shards_.rank() + shards_.size() - 1) % shards_.size();
  std::vector<P2p> ops;
  for (size_t i = 0; i < mine.size(); ++i) {
    const Tag tag = static_cast<Tag>(i) % kMaxTag;
    if (mine[i].numel() > 0) ops.push_back({P2p::kSend, mine[i], next, tag});
    if (others[i].numel() > 0) ops.push_back({P2p::kRecv, others[i], before, tag});
  }
  shards_.Batch(ops).WaitOn(ctx_.stream);
}

void ShardCopy::SendGradients() {
  std::vector<Tensor> mine, others;
  for (const optim::Slice& slice : slices_) mine.push_back(slice.gradient);
  for (const optim::Slice& slice : copies_) others.push_back(slice.gradient);
  Pass(mine, others);
}

void ShardCopy::Refresh(int64_t updates) {
  std::vector<Tensor> mine, others;
  for (size_t i = 0; i < slices_.size(); ++i) {
    mine.push_back(slices_[i].data), others.push_back(copies_[i].data);
    for (const optim::State& state : own_.StateOf(i)) mine.push_back(state.tensor);
    for (const optim::State& state : copy_->StateOf(i)) others.push_back(state.tensor);
  }
  Pass(mine, others);
  copy_->set_updates(updates);
}

}  // namespace twofold
