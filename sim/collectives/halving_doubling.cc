// Recursive halving, then doubling (Rabenseifner 2004; Thakur, Rabenseifner and Gropp 2005, section 4.5): a
// reduce-scatter with partners at distance N/2, N/4, ..., then an all-gather in reverse order. With 2^L the largest
// power of two in N:
//
//   all_reduce  2 L a + 2 (2^L - 1)/2^L n b, plus 2 (a + n b) if N > 2^L: the ranks past 2^L first send their data to a
//               partner and receive the result at the end
//   reduce      halving, then a gather of the parts to the root:  2 L a + 2 (N-1)/N n b, N a power of two
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

// The ranks at distance d from the root (in bits) send their gathered parts, 2^k of them.
Phase GatherByBits(int distance, int n, int root, double bytes) {
  Phase phase;
  for (int i = distance; i < n; i += 2 * distance) phase.flows.push_back({i ^ root, (i - distance) ^ root, bytes});
  return phase;
}

}  // namespace

absl::StatusOr<Schedule> HalvingDoublingSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  const double part = shape.bytes / core;
  std::vector<Phase> phases;
  switch (shape.kind) {
    case Communication::kAllReduce: {
      const Phase in = FoldIn(core, n, shape.bytes);
      if (core < n) phases.push_back(in);
      for (int d = core / 2; d >= 1; d /= 2) phases.push_back(Exchange(d, core, part * d));
      for (int d = 1; d < core; d *= 2) phases.push_back(Exchange(d, core, part * d));
      if (core < n) phases.push_back(Reversed(in));
      break;
    }
    case Communication::kReduce:
      if (core < n) return NoForm("recursive_halving_doubling", shape, "the number of ranks must be a power of two");
      for (int d = n / 2; d >= 1; d /= 2) phases.push_back(Exchange(d, n, part * d));
      for (int d = 1; d < n; d *= 2) phases.push_back(GatherByBits(d, n, shape.root, part * d));
      break;
    default: return NoForm("recursive_halving_doubling", shape);
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
