// Recursive doubling (Thakur, Rabenseifner and Gropp 2005, sections 4.1 and 4.4): in round k ranks at distance 2^k
// exchange what they have.
//
//   all_reduce      log2 N (a + n b); for other N, the N - 2^L ranks past the largest power of two first send their
//                   data to a partner and receive the result at the end:  (L + 2)(a + n b), L = floor(log2 N)
//   all_gather      L a + (N-1)/N n b, N a power of two  (n: the gathered tensor)
//   reduce_scatter  the same, with halving; N a power of two  (n: the tensor that is scattered)
#include "sim/collectives/builder.h"

namespace twofold::sim {

absl::StatusOr<Schedule> RecursiveDoublingSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  const int core = static_cast<int>(std::bit_floor(static_cast<unsigned>(n)));
  std::vector<Phase> phases;
  switch (shape.kind) {
    case Communication::kAllReduce: {
      const Phase in = FoldIn(core, n, shape.bytes);
      if (core < n) phases.push_back(in);
      for (int d = 1; d < core; d *= 2) phases.push_back(Exchange(d, core, shape.bytes));
      if (core < n) phases.push_back(Reversed(in));
      break;
    }
    case Communication::kAllGather:
    case Communication::kReduceScatter:
      if (core < n) return NoForm("recursive_doubling", shape, "the number of ranks must be a power of two");
      for (int d = 1; d < n; d *= 2) phases.push_back(Exchange(d, n, shape.bytes / n * d));
      if (shape.kind == Communication::kReduceScatter) std::reverse(phases.begin(), phases.end());
      break;
    default: return NoForm("recursive_doubling", shape);
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
