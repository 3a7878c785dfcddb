// Ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"): rank i talks to i + 1 only.
//
//   all_reduce      2(N-1) rounds of n/N:   2(N-1) a + 2 (N-1)/N n b
//   all_gather      N-1 rounds of n/N:      (N-1) a + (N-1)/N n b       (n: the gathered tensor)
//   reduce_scatter  likewise                                            (n: the tensor that is scattered)
//   broadcast       a pipelined chain:      (N-1) a + n b
//   reduce          likewise, towards the root
#include "sim/collectives/builder.h"

namespace twofold::sim {

absl::StatusOr<Schedule> RingSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  const double part = shape.bytes / n;
  Phase phase;
  auto around = [&](int rounds) {
    phase.rounds = rounds;
    for (int i = 0; i < n; ++i) phase.flows.push_back({i, (i + 1) % n, rounds * part});
  };
  auto chain = [&](bool towards_root) {
    phase.rounds = n - 1;
    for (int k = 0; k + 1 < n; ++k) {
      const int near = (shape.root + k) % n, far = (near + 1) % n;
      phase.flows.push_back(towards_root ? Flow{far, near, shape.bytes} : Flow{near, far, shape.bytes});
    }
  };
  switch (shape.kind) {
    case Communication::kAllReduce: around(2 * (n - 1)); break;
    case Communication::kAllGather:
    case Communication::kReduceScatter: around(n - 1); break;
    case Communication::kBroadcast: chain(false); break;
    case Communication::kReduce: chain(true); break;
    default: return NoForm("ring", shape);
  }
  return Finished({std::move(phase)}, n);
}

}  // namespace twofold::sim
