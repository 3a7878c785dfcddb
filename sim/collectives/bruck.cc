// Bruck et al. 1997 ("Efficient algorithms for all-to-all communications in multiport message-passing systems"): in
// round k every rank i sends to i - 2^k (all_gather) or i + 2^k (all_to_all); any number of ranks. L = ceil(log2 N).
//
//   all_gather  each rank sends all it has, at most what is missing:  L a + (N-1)/N n b     (n: the gathered tensor)
//   all_to_all  each rank sends the parts whose distance has bit k:  L a + sum over k of c_k n/N b, where c_k is how
//               many numbers below N have bit k:  L (a + n/2 b) for N a power of two
//               (n: what one rank sends, its own part included)
#include "sim/collectives/builder.h"

namespace twofold::sim {

absl::StatusOr<Schedule> BruckSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  const bool gather = shape.kind == Communication::kAllGather;
  if (!gather && shape.kind != Communication::kAllToAll) return NoForm("bruck", shape);
  const double part = shape.bytes / n;
  std::vector<Phase> phases;
  for (int d = 1; d < n; d *= 2) {
    int parts = gather ? std::min(d, n - d) : 0;
    for (int i = 0; i < n && !gather; ++i) parts += (i & d) != 0;
    Phase& phase = phases.emplace_back();
    phase.flows.reserve(static_cast<size_t>(n));
    for (int i = 0; i < n; ++i) phase.flows.push_back({i, (gather ? i + n - d : i + d) % n, part * parts});
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
