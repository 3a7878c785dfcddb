#include "core/comm/process_group.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"

namespace twofold {
namespace {

int64_t Total(std::span<const int64_t> counts) {
  TWOFOLD_CHECK(std::all_of(counts.begin(), counts.end(), [](int64_t n) { return n >= 0; }), "counts are not negative");
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

// A group of one rank. Nothing is ever issued on it.
class LoneGroup : public ProcessGroup {
 public:
  LoneGroup(std::string name, int world_rank, Device& device, CommunicationStats& stats)
      : ProcessGroup(std::move(name), 0, {world_rank}, device, stats) {}
  std::unique_ptr<ProcessGroup> Split(int color, int, std::string name) override {
    return color < 0 ? nullptr : Alone(std::move(name));
  }

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry&) override {
    TWOFOLD_CHECK(false, c.ToString() + " on a group of one");
    return {};
  }
};

}  // namespace

ProcessGroup::ProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device,
                           CommunicationStats& stats)
    : name_(std::move(name)),
      rank_(rank),
      ranks_(std::move(ranks)),
      device_(device),
      stats_(stats),
      held_(std::make_shared<HeldTensors>(&device.compute())) {
  TWOFOLD_CHECK_GE(rank_, 0);
  TWOFOLD_CHECK_LT(rank_, size());
}

void ProcessGroup::CheckPeer(int peer, Tag tag) const {
  TWOFOLD_CHECK_GE(peer, 0);
  TWOFOLD_CHECK_LT(peer, size());
  TWOFOLD_CHECK(peer != rank_, "a rank sends no messages to itself");
  TWOFOLD_CHECK_GE(tag, 0);
  TWOFOLD_CHECK_LE(tag, kMaxTag);
}

void ProcessGroup::CheckRoot(int root) const {
  TWOFOLD_CHECK_GE(root, 0);
  TWOFOLD_CHECK_LT(root, size());
}

void ProcessGroup::CheckBlocks(const Tensor& whole, const Tensor& block) const {
  TWOFOLD_CHECK(whole.dtype() == block.dtype(), whole.ToString() + " and " + block.ToString() + " differ in type");
  TWOFOLD_CHECK_EQ(whole.numel(), block.numel() * size());
}

Work ProcessGroup::Send(const Tensor& t, int to, Tag tag) {
  CheckPeer(to, tag);
  return Start({.kind = Communication::kSend, .in = t, .peer = to, .tag = tag});
}

Work ProcessGroup::Recv(Tensor& t, int from_or_any, Tag tag) {
  CheckPeer(from_or_any == kAnySource ? (rank_ + 1) % size() : from_or_any, tag);
  return Start({.kind = Communication::kRecv, .out = t, .peer = from_or_any, .tag = tag});
}

Work ProcessGroup::Batch(std::span<const P2p> ops) {
  if (ops.empty()) return Work();
  for (const P2p& m : ops) {
    TWOFOLD_CHECK(m.kind == P2p::kRecv || m.peer != kAnySource, "a send names its receiver");
    CheckPeer(m.peer == kAnySource ? (rank_ + 1) % size() : m.peer, m.tag);
    TWOFOLD_CHECK(!m.tensor.empty(), "a message needs a tensor");
  }
  return Start({.kind = Communication::kBatch, .batch = {ops.begin(), ops.end()}});
}

Work ProcessGroup::AllReduce(Tensor& t, ReduceOp op) {
  return Start({.kind = Communication::kAllReduce, .in = t, .out = t, .op = op});
}

Work ProcessGroup::AllGather(Tensor& out, const Tensor& shard) {
  CheckBlocks(out, shard);
  return Start({.kind = Communication::kAllGather, .in = shard, .out = out});
}

Work ProcessGroup::ReduceScatter(Tensor& shard, const Tensor& in, ReduceOp op) {
  CheckBlocks(in, shard);
  return Start({.kind = Communication::kReduceScatter, .in = in, .out = shard, .op = op});
}

Work ProcessGroup::Broadcast(Tensor& t, int root) {
  CheckRoot(root);
  return Start({.kind = Communication::kBroadcast, .in = t, .out = t, .peer = root});
}

Work ProcessGroup::Reduce(Tensor& t, ReduceOp op, int root) {
  CheckRoot(root);
  return Start({.kind = Communication::kReduce, .in = t, .out = t, .op = op, .peer = root});
}

Work ProcessGroup::Gather(Tensor& out, const Tensor& shard, int root) {
  CheckRoot(root);
  if (rank_ == root) CheckBlocks(out, shard);
  return Start({.kind = Communication::kGather, .in = shard, .out = rank_ == root ? out : Tensor(), .peer = root});
}

Work ProcessGroup::Scatter(Tensor& shard, const Tensor& in, int root) {
  CheckRoot(root);
  if (rank_ == root) CheckBlocks(in, shard);
  return Start({.kind = Communication::kScatter, .in = rank_ == root ? in : Tensor(), .out = shard, .peer = root});
}

Work ProcessGroup::AllToAll(Tensor& out, const Tensor& in) {
  TWOFOLD_CHECK(out.dtype() == in.dtype(), "input and output have the same type");
  TWOFOLD_CHECK_EQ(out.numel(), in.numel());
  TWOFOLD_CHECK_EQ(in.numel() % size(), 0);
  TWOFOLD_CHECK(size() == 1 || in.numel() == 0 || out.address() != in.address(), "all_to_all is not in place");
  return Start({.kind = Communication::kAllToAll, .in = in, .out = out});
}

Work ProcessGroup::AllToAllV(Tensor& out, std::span<const int64_t> out_counts, const Tensor& in,
                             std::span<const int64_t> in_counts) {
  TWOFOLD_CHECK(out.dtype() == in.dtype(), "input and output have the same type");
  TWOFOLD_CHECK_EQ(static_cast<int>(out_counts.size()), size());
  TWOFOLD_CHECK_EQ(static_cast<int>(in_counts.size()), size());
  TWOFOLD_CHECK_LE(Total(out_counts), out.numel());
  TWOFOLD_CHECK_LE(Total(in_counts), in.numel());
  TWOFOLD_CHECK_EQ(out_counts[static_cast<size_t>(rank_)], in_counts[static_cast<size_t>(rank_)]);
  return Start({.kind = Communication::kAllToAllV,
                .in = in,
                .out = out,
                .in_counts = {in_counts.begin(), in_counts.end()},
                .out_counts = {out_counts.begin(), out_counts.end()}});
}

Work ProcessGroup::Barrier() { return Start({.kind = Communication::kBarrier}); }

std::unique_ptr<ProcessGroup> ProcessGroup::SplitEvenly(int size, Pattern pattern, std::string name) {
  TWOFOLD_CHECK_GE(size, 1);
  TWOFOLD_CHECK_EQ(this->size() % size, 0);
  if (size == 1) return Alone(std::move(name));
  const int groups = this->size() / size;
  return Split(pattern == Pattern::kConsecutive ? rank_ / size : rank_ % groups, rank_, std::move(name));
}

std::unique_ptr<ProcessGroup> ProcessGroup::Partition(std::span<const std::vector<int>> groups, std::string name) {
  // By rank: its group, its index in the group
  std::vector<std::pair<int, int>> places(static_cast<size_t>(size()), {-1, -1});
  bool any = false;
  for (size_t g = 0; g < groups.size(); ++g) {
    any = any || groups[g].size() > 1;
    for (size_t i = 0; i < groups[g].size(); ++i) {
      CheckRoot(groups[g][i]);
      auto& place = places[static_cast<size_t>(groups[g][i])];
      TWOFOLD_CHECK_EQ(place.first, -1);  // every rank must be in exactly one group
      place = {static_cast<int>(g), static_cast<int>(i)};
    }
  }
  TWOFOLD_CHECK(std::none_of(places.begin(), places.end(), [](const auto& p) { return p.first < 0; }),
                "every rank is in a group");
  if (!any) return Alone(std::move(name));
  const auto [group, place] = places[static_cast<size_t>(rank_)];
  const bool alone = groups[static_cast<size_t>(group)].size() == 1;
  auto part = Split(alone ? -1 : group, place, name);
  return alone ? Alone(std::move(name)) : std::move(part);
}

std::unique_ptr<ProcessGroup> ProcessGroup::NewGroup(std::span<const int> ranks, std::string name) {
  std::vector<int> sorted(ranks.begin(), ranks.end());
  std::sort(sorted.begin(), sorted.end());
  TWOFOLD_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "a rank is listed once");
  for (int r : ranks) CheckRoot(r);
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return Split(-1, 0, std::move(name));
  return Split(0, static_cast<int>(place - ranks.begin()), std::move(name));
}

std::unique_ptr<ProcessGroup> ProcessGroup::Alone(std::string name) {
  return std::make_unique<LoneGroup>(std::move(name), ranks_[static_cast<size_t>(rank_)], device_, stats_);
}

Work ProcessGroup::Start(Communication c) {
  const bool needs_in = c.kind != Communication::kBatch && c.kind != Communication::kBarrier &&
                        c.kind != Communication::kRecv && (c.kind != Communication::kScatter || c.peer == rank_);
  const bool needs_out = c.kind != Communication::kBatch && c.kind != Communication::kBarrier &&
                         c.kind != Communication::kSend && (c.kind != Communication::kGather || c.peer == rank_);
  TWOFOLD_CHECK(!needs_in || !c.in.empty(), std::string(KindName(c.kind)) + " needs its input tensor");
  TWOFOLD_CHECK(!needs_out || !c.out.empty(), std::string(KindName(c.kind)) + " needs its output tensor");
  if (size() == 1) {
    CopyLocally(c);
    return Work();
  }
  CommunicationStats::Entry*& entry = entries_[static_cast<size_t>(c.kind)];
  if (entry == nullptr) entry = &stats_(name_, c.kind);
  ++entry->count;
  entry->bytes += c.bytes();
  Issued issued = Issue(c, *entry);
  const uint64_t sequence = held_->NextCall();
  for (Tensor& t : issued.workspace) held_->Hold(std::move(t));
  if (!c.in.empty()) held_->Hold(std::move(c.in));
  if (!c.out.empty()) held_->Hold(std::move(c.out));
  for (P2p& m : c.batch) held_->Hold(std::move(m.tensor));
  return Work(std::move(issued.state), held_, sequence);
}

void ProcessGroup::CopyLocally(const Communication& c) {
  TWOFOLD_CHECK(c.is_collective(), c.ToString() + " on a group of one");
  if (c.in.empty()) return;
  const int64_t count = c.kind == Communication::kAllToAllV ? c.in_counts[0] : c.in.numel();
  if (count == 0 || c.in.address() == c.out.address()) return;
  device_.Launch(device_.compute(), ops::Cast{.in = c.in.Slice(0, count), .out = c.out.Slice(0, count)});
}

}  // namespace twofold
