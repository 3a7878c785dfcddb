// Binomial tree (Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication operations in MPICH",
// section 4): in round k each of the ranks below 2^k serves one more rank. L = ceil(log2 N).
//
//   broadcast   L (a + n b)
//   reduce      the same, in reverse
//   all_reduce  reduce to rank 0, then broadcast:  2 L (a + n b)
//   gather      round k carries 2^k parts:  L a + (N-1)/N n b for N a power of two (else at most L a + n b, because the
//   scatter     last subtree is smaller)    (n: the tensor at the root)
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

// Round k of a broadcast from `root`: rank j < 2^k (counted from the root) sends to j + 2^k.
Phase BroadcastRound(int k, int n, int root, double bytes) {
  Phase phase;
  for (int j = 0; j < (1 << k) && j + (1 << k) < n; ++j) {
    phase.flows.push_back({(root + j) % n, (root + j + (1 << k)) % n, bytes});
  }
  return phase;
}

// Round k of a gather: rank j, a multiple of 2^(k+1), takes the 2^k parts (or as many as exist) of j + 2^k.
Phase GatherRound(int k, int n, int root, double part) {
  Phase phase;
  const int step = 1 << k;
  for (int j = 0; j + step < n; j += 2 * step) {
    phase.flows.push_back({(root + j + step) % n, (root + j) % n, part * std::min(step, n - j - step)});
  }
  return phase;
}

}  // namespace

absl::StatusOr<Schedule> TreeSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks, levels = CeilLog2(n);
  std::vector<Phase> phases;
  auto down = [&](int root) {
    for (int k = 0; k < levels; ++k) phases.push_back(BroadcastRound(k, n, root, shape.bytes));
  };
  auto up = [&](int root) {
    for (int k = levels - 1; k >= 0; --k) phases.push_back(Reversed(BroadcastRound(k, n, root, shape.bytes)));
  };
  switch (shape.kind) {
    case Communication::kBroadcast: down(shape.root); break;
    case Communication::kReduce: up(shape.root); break;
    case Communication::kAllReduce: up(0), down(0); break;
    case Communication::kGather:
      for (int k = 0; k < levels; ++k) phases.push_back(GatherRound(k, n, shape.root, shape.bytes / n));
      break;
    case Communication::kScatter:
      for (int k = levels - 1; k >= 0; --k) phases.push_back(Reversed(GatherRound(k, n, shape.root, shape.bytes / n)));
      break;
    default: return NoForm("tree", shape);
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
