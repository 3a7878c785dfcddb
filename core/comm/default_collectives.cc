#include "core/comm/default_collectives.h"

#include <cstring>
#include <vector>

#include "core/base/check.h"

namespace twofold {
namespace {

constexpr Tag kCollectiveTag = kMaxTag + 1;  // so that a receive from any source cannot match a collective's message

using ReadBytes = std::span<const std::byte>;
using WriteBytes = std::span<std::byte>;

WriteBytes Data(const Tensor& t) {
  if (t.empty() || t.numel() == 0) return {};
  return {static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.bytes().value())};
}

// The first of n elements that belongs to `rank`, of `size` ranks. Shares differ by at most one element.
int64_t ShareBegin(int64_t n, int rank, int size) { return n * rank / size; }
int64_t LargestShare(int64_t n, int size) { return (n + size - 1) / size; }

void CopyIfApart(WriteBytes to, ReadBytes from) {
  if (!from.empty() && to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size());
}

// A tensor cut into one piece per rank. operator[](r) returns the bytes of rank r.
class Pieces {
 public:
  static Pieces Shares(const Tensor& t, int size) {
    Pieces p(t);
    for (int r = 0; r <= size; ++r) p.begin_.push_back(ShareBegin(t.numel(), r, size) * p.element_);
    return p;
  }
  static Pieces Blocks(const Tensor& t, int size) { return Shares(t, size); }  // for numel that is a multiple of size
  static Pieces Counts(const Tensor& t, const std::vector<int64_t>& counts) {
    Pieces p(t);
    p.begin_.push_back(0);
    for (int64_t n : counts) p.begin_.push_back(p.begin_.back() + n * p.element_);
    return p;
  }
  WriteBytes operator[](int r) const {
    const auto i = static_cast<size_t>(r);
    return data_.subspan(static_cast<size_t>(begin_[i]), static_cast<size_t>(begin_[i + 1] - begin_[i]));
  }

 private:
  explicit Pieces(const Tensor& t) : data_(Data(t)), element_(ElementSize(t.dtype())) {}
  WriteBytes data_;
  int64_t element_;
  std::vector<int64_t> begin_;
};

// Pairwise exchange: in step s, rank r sends to r + s and receives from r - s. N - 1 steps.
void Pairwise(PointToPoint& p, auto&& outgoing /* (to) */, auto&& incoming /* (from) */) {
  const int n = p.size(), r = p.rank();
  for (int s = 1; s < n; ++s) {
    const int to = (r + s) % n, from = (r - s + n) % n;
    p.SendRecv(outgoing(to), to, incoming(from), from, kCollectiveTag);
  }
}

// Direct reduce-scatter: every rank sends piece i of `in` to rank i, which stages all N pieces and reduces them in rank
// order into `result`. N - 1 steps, (N - 1)/N * bytes out of and into each rank; staging (N - 1) pieces.
void ReducePieces(const Communication& c, PointToPoint& p, const Pieces& in, WriteBytes result, WriteBytes staging) {
  const int n = p.size(), r = p.rank();
  const WriteBytes own = in[r];
  auto slot = [&](int from) {
    return staging.subspan(static_cast<size_t>(from < r ? from : from - 1) * own.size(), own.size());
  };
  Pairwise(
      p, [&](int to) -> ReadBytes { return in[to]; }, slot);
  std::vector<const void*> inputs;
  for (int i = 0; i < n; ++i) inputs.push_back(i == r ? own.data() : slot(i).data());
  const int64_t count = static_cast<int64_t>(own.size()) / ElementSize(c.in.dtype());
  if (count > 0) p.Reduce(inputs, result.data(), c.in.dtype(), c.op, count);
}

// Ring all-gather of pieces that are already in place (Patarasu and Yuan 2009). In step s, rank r forwards piece r - s
// to r + 1. N - 1 steps, (N - 1)/N * bytes out of and into each rank.
void RingAllGather(PointToPoint& p, const Pieces& out) {
  const int n = p.size(), r = p.rank();
  for (int s = 0; s < n - 1; ++s) {
    const int passed = (r - s + n) % n, taken = (r - s - 1 + n) % n;
    p.SendRecv(out[passed], (r + 1) % n, out[taken], (r - 1 + n) % n, kCollectiveTag);
  }
}

// Direct reduce-scatter, then ring all-gather: 2 (N - 1) steps, 2 (N - 1)/N * bytes.
void AllReduce(const Communication& c, PointToPoint& p, WriteBytes workspace) {
  const Pieces t = Pieces::Shares(c.out, p.size());
  ReducePieces(c, p, t, t[p.rank()], workspace);
  RingAllGather(p, t);
}

void ReduceScatter(const Communication& c, PointToPoint& p, WriteBytes workspace) {
  ReducePieces(c, p, Pieces::Blocks(c.in, p.size()), Data(c.out), workspace);
}

// Direct reduce-scatter into the workspace, then every rank sends its share to the root: N steps, bytes out of each
// rank, 2 (N - 1)/N * bytes into the root.
void Reduce(const Communication& c, PointToPoint& p, WriteBytes workspace) {
  const int n = p.size(), r = p.rank(), root = c.peer;
  const Pieces t = Pieces::Shares(c.out, n);
  const size_t staged = t[r].size() * static_cast<size_t>(n - 1);
  const WriteBytes result = r == root ? t[r] : workspace.subspan(staged, t[r].size());
  ReducePieces(c, p, t, result, workspace.first(staged));
  if (r != root) return p.Send(result, root, kCollectiveTag);
  for (int i = 0; i < n; ++i) {
    if (i != root) p.Recv(t[i], i, kCollectiveTag);
  }
}

void AllGather(const Communication& c, PointToPoint& p) {
  const Pieces out = Pieces::Blocks(c.out, p.size());
  CopyIfApart(out[p.rank()], Data(c.in));
  RingAllGather(p, out);
}

// Binomial tree: in round k, each of the 2^k ranks that have the data sends it to one more. ceil(log2 N) steps, bytes
// in each.
void Broadcast(const Communication& c, PointToPoint& p) {
  const int n = p.size(), root = c.peer;
  const int relative = (p.rank() - root + n) % n;
  const WriteBytes t = Data(c.out);
  int distance = 1;
  for (; distance < n; distance *= 2) {
    if (relative & distance) {
      p.Recv(t, (relative - distance + root) % n, kCollectiveTag);
      break;
    }
  }
  for (distance /= 2; distance >= 1; distance /= 2) {
    if (relative + distance < n) p.Send(t, (relative + distance + root) % n, kCollectiveTag);
  }
}

// Direct: the root receives N - 1 blocks in rank order.
void Gather(const Communication& c, PointToPoint& p) {
  if (p.rank() != c.peer) return p.Send(Data(c.in), c.peer, kCollectiveTag);
  const Pieces out = Pieces::Blocks(c.out, p.size());
  CopyIfApart(out[c.peer], Data(c.in));
  for (int i = 0; i < p.size(); ++i) {
    if (i != c.peer) p.Recv(out[i], i, kCollectiveTag);
  }
}

// Direct: the root sends N - 1 blocks in rank order.
void Scatter(const Communication& c, PointToPoint& p) {
  if (p.rank() != c.peer) return p.Recv(Data(c.out), c.peer, kCollectiveTag);
  const Pieces in = Pieces::Blocks(c.in, p.size());
  CopyIfApart(Data(c.out), in[c.peer]);
  for (int i = 0; i < p.size(); ++i) {
    if (i != c.peer) p.Send(in[i], i, kCollectiveTag);
  }
}

// Pairwise exchange: N - 1 steps, (N - 1)/N * bytes.
void AllToAll(PointToPoint& p, const Pieces& out, const Pieces& in) {
  CopyIfApart(out[p.rank()], in[p.rank()]);
  Pairwise(
      p, [&](int to) -> ReadBytes { return in[to]; }, [&](int from) { return out[from]; });
}

// Dissemination (Hensgen, Finkel and Manber 1988): in round k, rank r signals r + 2^k. ceil(log2 N) steps, no bytes.
void Barrier(PointToPoint& p) {
  const int n = p.size(), r = p.rank();
  for (int d = 1; d < n; d *= 2) p.SendRecv({}, (r + d) % n, {}, (r - d + n) % n, kCollectiveTag);
}

}  // namespace

Bytes CollectiveWorkspace(const Communication& c, int size) {
  const int64_t element = c.in.empty() ? 0 : ElementSize(c.in.dtype());
  switch (c.kind) {
    case Communication::kAllReduce: return Bytes(LargestShare(c.in.numel(), size) * (size - 1) * element);
    case Communication::kReduce: return Bytes(LargestShare(c.in.numel(), size) * size * element);
    case Communication::kReduceScatter: return c.out.bytes() * (size - 1);
    default: return Bytes(0);
  }
}

void RunCollective(const Communication& c, PointToPoint& p, std::span<std::byte> workspace) {
  TWOFOLD_CHECK_GE(static_cast<int64_t>(workspace.size()), CollectiveWorkspace(c, p.size()).value());
  switch (c.kind) {
    case Communication::kAllReduce: return AllReduce(c, p, workspace);
    case Communication::kAllGather: return AllGather(c, p);
    case Communication::kReduceScatter: return ReduceScatter(c, p, workspace);
    case Communication::kBroadcast: return Broadcast(c, p);
    case Communication::kReduce: return Reduce(c, p, workspace);
    case Communication::kGather: return Gather(c, p);
    case Communication::kScatter: return Scatter(c, p);
    case Communication::kAllToAll: return AllToAll(p, Pieces::Blocks(c.out, p.size()), Pieces::Blocks(c.in, p.size()));
    case Communication::kAllToAllV:
      return AllToAll(p, Pieces::Counts(c.out, c.out_counts), Pieces::Counts(c.in, c.in_counts));
    case Communication::kBarrier: return Barrier(p);
    case Communication::kSend:
    case Communication::kRecv:
    case Communication::kBatch: break;
  }
  TWOFOLD_CHECK(false, c.ToString() + " is not a collective");
}

}  // namespace twofold
