#include "backends/in_memory/collectives.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "core/base/check.h"

namespace twofold::in_memory {
namespace {

constexpr int64_t kSmall = 64 << 10;  // bytes; reduced or copied in some ten microseconds

using Addresses = absl::InlinedVector<char*, 8>;

char* In(const Round& ranks, int rank) { return static_cast<char*>(ranks[rank].in); }
char* Out(const Round& ranks, int rank) { return static_cast<char*>(ranks[rank].out); }

// All ranks' operands, from a byte offset.
Addresses Ins(const Round& ranks, int64_t from = 0) {
  Addresses all;
  for (int r = 0; r < ranks.size(); ++r) all.push_back(In(ranks, r) + from);
  return all;
}
Addresses Outs(const Round& ranks, int64_t from = 0) {
  Addresses all;
  for (int r = 0; r < ranks.size(); ++r) all.push_back(Out(ranks, r) + from);
  return all;
}

// A rank's share of n elements. Boundaries are multiples of 64 elements, so that no two ranks write the same cache
// line.
struct Share {
  int64_t first, count;
};
Share ShareOf(int64_t n, int rank, int size) {
  const int64_t lines = (n + 63) / 64;
  const int64_t begin = std::min(n, lines * rank / size * 64), end = std::min(n, lines * (rank + 1) / size * 64);
  return {begin, end - begin};
}

void ReduceInOrder(const Addresses& from, std::span<char* const> to, const Communication& c, Share share,
                   Mover& mover) {
  const absl::InlinedVector<const void*, 8> inputs(from.begin(), from.end());
  const absl::InlinedVector<void*, 8> outputs(to.begin(), to.end());
  mover.Reduce(inputs, outputs, c.out.dtype(), c.op, share.first, share.count);
}

// Share r: a range of elements of all ranks' tensors, reduced in rank order and written to all tensors, or to the
// root's.
void Reduce(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const Share share = ShareOf(c.out.numel(), r, ranks.size());
  if (share.count == 0) return;
  const Addresses all = Outs(ranks);
  if (c.kind == Communication::kAllReduce) return ReduceInOrder(all, all, c, share, mover);
  char* const root = Out(ranks, c.peer);
  ReduceInOrder(all, {&root, 1}, c, share, mover);
}

// Share r: block r of all ranks' inputs, reduced into rank r's shard.
void ReduceScatter(const Round& ranks, const Communication& c, int r, Mover& mover) {
  if (c.out.numel() == 0) return;
  char* const shard = Out(ranks, r);
  ReduceInOrder(Ins(ranks, r * c.out.bytes().value()), {&shard, 1}, c, {0, c.out.numel()}, mover);
}

// Share r: rank r's shard, written to its place in all ranks' outputs.
void AllGather(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const int64_t bytes = c.in.bytes().value();
  if (bytes > 0) mover.CopyToAll(Outs(ranks, r * bytes), In(ranks, r), bytes);
}

// Share r: a range of elements of the root's tensor, written to all other ranks' tensors.
void Broadcast(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const Share share = ShareOf(c.out.numel(), r, ranks.size());
  if (share.count == 0) return;
  const int64_t element = ElementSize(c.out.dtype()), first = share.first * element;
  mover.CopyToAll(Outs(ranks, first), Out(ranks, c.peer) + first, share.count * element);
}

// Share r: rank r's shard, written to its place at the root.
void Gather(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const int64_t bytes = c.in.bytes().value();
  if (bytes > 0) mover.Copy(Out(ranks, c.peer) + r * bytes, In(ranks, r), bytes);
}

// Share r: rank r's block at the root.
void Scatter(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const int64_t bytes = c.out.bytes().value();
  if (bytes > 0) mover.Copy(Out(ranks, r), In(ranks, c.peer) + r * bytes, bytes);
}

// Share r: block r of all ranks' inputs, written to rank r's output.
void AllToAll(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const int64_t bytes = c.out.bytes().value() / ranks.size();
  if (bytes == 0) return;
  for (int from = 0; from < ranks.size(); ++from)
    mover.Copy(Out(ranks, r) + from * bytes, In(ranks, from) + r * bytes, bytes);
}

void AllToAllV(const Round& ranks, const Communication& c, int r, Mover& mover) {
  const int64_t element = ElementSize(c.out.dtype());
  const std::vector<int64_t>& out_counts = ranks[r].call->communication.out_counts;
  int64_t to = 0;
  for (int from = 0; from < ranks.size(); ++from) {
    const std::vector<int64_t>& in_counts = ranks[from].call->communication.in_counts;
    const int64_t first = std::accumulate(in_counts.begin(), in_counts.begin() + r, int64_t{0});
    const int64_t count = out_counts[static_cast<size_t>(from)];
    if (count > 0) mover.Copy(Out(ranks, r) + to * element, In(ranks, from) + first * element, count * element);
    to += count;
  }
}

}  // namespace

void DoShare(const Round& round, const Communication& c, int share, Mover& mover) {
  switch (c.kind) {
    case Communication::kAllReduce:
    case Communication::kReduce: return Reduce(round, c, share, mover);
    case Communication::kReduceScatter: return ReduceScatter(round, c, share, mover);
    case Communication::kAllGather: return AllGather(round, c, share, mover);
    case Communication::kBroadcast: return Broadcast(round, c, share, mover);
    case Communication::kGather: return Gather(round, c, share, mover);
    case Communication::kScatter: return Scatter(round, c, share, mover);
    case Communication::kAllToAll: return AllToAll(round, c, share, mover);
    case Communication::kAllToAllV: return AllToAllV(round, c, share, mover);
    case Communication::kBarrier: return;
    case Communication::kSend:
    case Communication::kRecv:
    case Communication::kBatch: break;
  }
  TWOFOLD_CHECK(false, c.ToString() + " is not a collective");
}

bool IsSmall(const Communication& c) {
  switch (c.kind) {
    case Communication::kAllReduce:
    case Communication::kReduce:
    case Communication::kReduceScatter:
    case Communication::kAllGather:
    case Communication::kBroadcast:
    case Communication::kAllToAll:
    case Communication::kBarrier: return c.bytes().value() <= kSmall;
    default:  // messages, and collectives whose byte counts differ by rank
      return false;
  }
}

}  // namespace twofold::in_memory
