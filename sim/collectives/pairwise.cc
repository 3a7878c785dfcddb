// Pairwise exchange (Thakur, Rabenseifner and Gropp 2005, sections 4.2 and 4.4): N - 1 rounds, one after another; in
// round s every rank sends to the rank at distance s.
//
//   all_to_all      (N-1) (a + n/N b)   (n: what one rank sends, its own part included)
//   reduce_scatter  the same            (n: the tensor that is scattered)
//   all_to_all_v    each round takes as long as its largest message
#include "sim/collectives/builder.h"

namespace twofold::sim {

absl::StatusOr<Schedule> PairwiseSchedule(const CollectiveShape& shape, const Places& places) {
  const int n = shape.ranks;
  const bool uneven = shape.kind == Communication::kAllToAllV;
  if (!uneven && shape.kind != Communication::kAllToAll && shape.kind != Communication::kReduceScatter) {
    return NoForm("pairwise", shape);
  }
  const Rotation rotation(n, places);
  std::vector<Phase> phases;
  for (int shift = 1; shift < n; ++shift) {
    Phase& phase = phases.emplace_back();
    if (!uneven) {
      phase.flows = rotation.By(shift, shape.bytes / n);
      continue;
    }
    for (int i = 0; i < n; ++i) {
      const int to = (i + shift) % n;
      phase.flows.push_back({i, to, shape.matrix[static_cast<size_t>(i)][static_cast<size_t>(to)]});
    }
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
