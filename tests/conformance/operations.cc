#include "tests/conformance/operations.h"

#include <memory>
#include <numeric>

namespace twofold::conformance {
namespace {

constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};

// What rank `r` of the group brings.
Series Brings(const ProcessGroup& group, const Call& c, int r) {
  return {.rank = group.ranks()[static_cast<size_t>(r)], .salt = c.salt, .near_one = c.op == ReduceOp::kProduct};
}
std::vector<Series> AllBring(const ProcessGroup& group, const Call& c) {
  std::vector<Series> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(Brings(group, c, r));
  return all;
}

std::string Describe(std::string_view name, const ProcessGroup& group, const Call& c) {
  return StrCat(name, " of ", DTypeName(c.dtype), "[", c.count, "]", c.in_place ? " in place" : "", ", group ",
                group.name(), " of ", group.size());
}
std::string Reducing(std::string_view name, const Call& c) { return StrCat(name, "(", ReduceOpName(c.op), ")"); }
std::string WithRoot(std::string_view name, const Call& c) { return StrCat(name, " with root ", c.root); }

Tensor Block(const Tensor& whole, int block, int64_t count) { return whole.Slice(block * count, count); }

Started AllReduce(Rig& rig, ProcessGroup& group, const Call& c) {
  Tensor t = rig.Put(c.dtype, c.count, Brings(group, c, group.rank()));
  return {group.AllReduce(t, c.op), [=, &rig, &group] {
            rig.ExpectReduced(t, AllBring(group, c), c.op, 0, Describe(Reducing("all_reduce", c), group, c));
          }};
}

Started Reduce(Rig& rig, ProcessGroup& group, const Call& c) {
  Tensor t = rig.Put(c.dtype, c.count, Brings(group, c, group.rank()));
  return {group.Reduce(t, c.op, c.root), [=, &rig, &group] {
            const std::string what = Describe(WithRoot(Reducing("reduce", c), c), group, c);
            if (group.rank() == c.root)
              rig.ExpectReduced(t, AllBring(group, c), c.op, 0, what);
            else
              rig.ExpectSeries(t, Brings(group, c, group.rank()), 0, what + ", unchanged beside the root");
          }};
}

Started ReduceScatter(Rig& rig, ProcessGroup& group, const Call& c) {
  const Series own = Brings(group, c, group.rank());
  const int64_t first = c.count * group.rank();
  Tensor in = rig.Put(c.dtype, c.count * group.size(), own);
  Tensor shard = c.in_place ? in.Slice(first, c.count) : rig.Blank(c.dtype, c.count);
  return {group.ReduceScatter(shard, in, c.op), [=, &rig, &group] {
            const std::string what = Describe(Reducing("reduce_scatter", c), group, c);
            rig.ExpectReduced(shard, AllBring(group, c), c.op, first, what);
            if (!c.in_place) rig.ExpectSeries(in, own, 0, what + ", its input");
          }};
}

Started AllGather(Rig& rig, ProcessGroup& group, const Call& c) {
  Tensor out = rig.Blank(c.dtype, c.count * group.size());
  Tensor shard = c.in_place ? Block(out, group.rank(), c.count) : rig.Blank(c.dtype, c.count);
  rig.Fill(shard, Brings(group, c, group.rank()));
  return {group.AllGather(out, shard), [=, &rig, &group] {
            const std::string what = Describe("all_gather", group, c);
            for (int r = 0; r < group.size(); ++r) {
              rig.ExpectSeries(Block(out, r, c.count), Brings(group, c, r), 0, StrCat(what, ", block ", r));
            }
            if (!c.in_place) rig.ExpectSeries(shard, Brings(group, c, group.rank()), 0, what + ", its input");
          }};
}

Started Broadcast(Rig& rig, ProcessGroup& group, const Call& c) {
  Tensor t = rig.Put(c.dtype, c.count, Brings(group, c, group.rank()));
  return {group.Broadcast(t, c.root), [=, &rig, &group] {
            rig.ExpectSeries(t, Brings(group, c, c.root), 0, Describe(WithRoot("broadcast", c), group, c));
          }};
}

Started Gather(Rig& rig, ProcessGroup& group, const Call& c) {
  const Series own = Brings(group, c, group.rank());
  const Tensor shard = rig.Put(c.dtype, c.count, own);
  const bool at_root = group.rank() == c.root;
  Tensor out = at_root ? rig.Blank(c.dtype, c.count * group.size()) : Tensor();
  return {group.Gather(out, shard, c.root), [=, &rig, &group] {
            const std::string what = Describe(WithRoot("gather", c), group, c);
            for (int r = 0; at_root && r < group.size(); ++r) {
              rig.ExpectSeries(Block(out, r, c.count), Brings(group, c, r), 0, StrCat(what, ", block ", r));
            }
            rig.ExpectSeries(shard, own, 0, what + ", its input");
          }};
}

Started Scatter(Rig& rig, ProcessGroup& group, const Call& c) {
  const Series of_root = Brings(group, c, c.root);
  const Tensor in = group.rank() == c.root ? rig.Put(c.dtype, c.count * group.size(), of_root) : Tensor();
  Tensor shard = rig.Blank(c.dtype, c.count);
  return {group.Scatter(shard, in, c.root), [=, &rig, &group] {
            const std::string what = Describe(WithRoot("scatter", c), group, c);
            rig.ExpectSeries(shard, of_root, c.count * group.rank(), what);
            if (!in.empty()) rig.ExpectSeries(in, of_root, 0, what + ", its input");
          }};
}

Started AllToAll(Rig& rig, ProcessGroup& group, const Call& c) {
  const Series own = Brings(group, c, group.rank());
  const Tensor in = rig.Put(c.dtype, c.count * group.size(), own);
  Tensor out = rig.Blank(c.dtype, c.count * group.size());
  return {group.AllToAll(out, in), [=, &rig, &group] {
            const std::string what = Describe("all_to_all", group, c);
            for (int r = 0; r < group.size(); ++r) {
              rig.ExpectSeries(Block(out, r, c.count), Brings(group, c, r), c.count * group.rank(),
                               StrCat(what, ", block ", r));
            }
            rig.ExpectSeries(in, own, 0, what + ", its input");
          }};
}

// From each rank to each other, nothing, `count` or twice that.
int64_t Share(const Call& c, int from, int to) { return c.count * ((from + 2 * to) % 3); }

Started AllToAllV(Rig& rig, ProcessGroup& group, const Call& c) {
  const int n = group.size(), me = group.rank();
  std::vector<int64_t> in_counts, out_counts;
  for (int r = 0; r < n; ++r) {
    in_counts.push_back(Share(c, me, r));
    out_counts.push_back(Share(c, r, me));
  }
  const auto total = [](const std::vector<int64_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  };
  const Series own = Brings(group, c, me);
  const Tensor in = rig.Put(c.dtype, total(in_counts), own);
  Tensor out = rig.Blank(c.dtype, total(out_counts));
  return {group.AllToAllV(out, out_counts, in, in_counts), [=, &rig, &group] {
            const std::string what = Describe("all_to_all_v", group, c);
            for (int64_t r = 0, first = 0; r < n; first += out_counts[static_cast<size_t>(r)], ++r) {
              const int from = static_cast<int>(r);
              int64_t skipped = 0;  // what `from` sends to the ranks before this one
              for (int to = 0; to < me; ++to) skipped += Share(c, from, to);
              rig.ExpectSeries(out.Slice(first, Share(c, from, me)), Brings(group, c, from), skipped,
                               StrCat(what, ", block ", r));
            }
            rig.ExpectSeries(in, own, 0, what + ", its input");
          }};
}

// Everybody sends a block to everybody else: nothing but progress of all messages together gets through.
Started Batch(Rig& rig, ProcessGroup& group, const Call& c) {
  const int me = group.rank();
  std::vector<P2p> batch;
  std::vector<Tensor> received(static_cast<size_t>(group.size()));
  for (int r = 0; r < group.size(); ++r) {
    if (r == me) continue;
    Tensor sent = rig.Blank(c.dtype, c.count);
    rig.Fill(sent, Brings(group, c, me), r * c.count);
    batch.push_back({P2p::kSend, std::move(sent), r});
    received[static_cast<size_t>(r)] = rig.Blank(c.dtype, c.count);
    batch.push_back({P2p::kRecv, received[static_cast<size_t>(r)], r});
  }
  return {group.Batch(batch), [=, &rig, &group] {
            for (int r = 0; r < group.size(); ++r) {
              if (r == me) continue;
              rig.ExpectSeries(received[static_cast<size_t>(r)], Brings(group, c, r), me * c.count,
                               StrCat(Describe("batch", group, c), ", from ", r));
            }
          }};
}

#ifdef TWOFOLD_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool Affordable(const Operation& o, const Call& c) {
  if (c.count < kLarge) return true;
  if (kSanitized) return c.op == ReduceOp::kSum && c.dtype == DType::kF32;
  return c.op == ReduceOp::kSum || o.name == "AllReduce";
}

}  // namespace

std::span<const Operation> Operations() {
  static constexpr Operation kOperations[] = {
      {.name = "AllReduce", .reduces = true, .start = AllReduce},
      {.name = "AllGather", .in_place = true, .start = AllGather},
      {.name = "ReduceScatter", .reduces = true, .in_place = true, .start = ReduceScatter},
      {.name = "Broadcast", .rooted = true, .start = Broadcast},
      {.name = "Reduce", .reduces = true, .rooted = true, .start = Reduce},
      {.name = "Gather", .rooted = true, .start = Gather},
      {.name = "Scatter", .rooted = true, .start = Scatter},
      {.name = "AllToAll", .start = AllToAll},
      {.name = "AllToAllV", .start = AllToAllV},
      {.name = "Batch", .start = Batch},
  };
  return kOperations;
}

std::vector<Call> Calls(const Operation& operation, int size, std::span<const int64_t> counts) {
  const std::span<const ReduceOp> ops = std::span(kReduceOps).first(operation.reduces ? std::size(kReduceOps) : 1);
  std::vector<Call> calls;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (const DType dtype : kTypes) {
      for (const ReduceOp op : ops) {
        for (int in_place = 0; in_place <= (operation.in_place ? 1 : 0); ++in_place) {
          const auto salt = static_cast<uint32_t>(calls.size());
          const int root = operation.rooted ? static_cast<int>((salt + i) % static_cast<size_t>(size)) : 0;
          const Call c = {dtype, counts[i], salt, op, root, in_place != 0};
          if (Affordable(operation, c)) calls.push_back(c);
        }
      }
    }
  }
  return calls;
}

}  // namespace twofold::conformance
