// Direct: every message goes straight to its receiver, all posted at once.
//
//   all_gather, reduce_scatter, all_to_all  a + (N-1)/N n b
//   all_reduce                              both, one after the other:  2 a + 2 (N-1)/N n b
//   broadcast, gather, scatter, reduce      through the root's link:  a + (N-1) part b, part = n, n/N, n/N, n
//   all_to_all_v                            a + (bytes of the busiest link) b, on a star
//
// The messages of one rank are sent in rotation (to i + 1, i + 2, ...), so that N flows are in flight at a time and no
// receiver is overloaded. On a network with limits only at the endpoints, this costs the same as all N(N-1) at once.
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

void Rotate(std::vector<Phase>& phases, int n, const Places& places, double part) {
  const Rotation rotation(n, places);
  for (int shift = 1; shift < n; ++shift)
    phases.push_back({.rounds = shift == 1 ? 1 : 0, .flows = rotation.By(shift, part)});
}

Phase AtRoot(const CollectiveShape& shape, double part, bool from_root) {
  Phase phase;
  for (int k = 1; k < shape.ranks; ++k) {
    const int other = (shape.root + k) % shape.ranks;
    phase.flows.push_back(from_root ? Flow{shape.root, other, part} : Flow{other, shape.root, part});
  }
  return phase;
}

Phase FromMatrix(const CollectiveShape& shape) {
  Phase phase;
  for (int i = 0; i < shape.ranks; ++i) {
    for (int j = 0; j < shape.ranks; ++j) {
      const double bytes = shape.matrix[static_cast<size_t>(i)][static_cast<size_t>(j)];
      if (i != j && bytes > 0) phase.flows.push_back({i, j, bytes});
    }
  }
  return phase;
}

}  // namespace

absl::StatusOr<Schedule> DirectSchedule(const CollectiveShape& shape, const Places& places) {
  const int n = shape.ranks;
  const double part = shape.bytes / n;
  std::vector<Phase> phases;
  switch (shape.kind) {
    case Communication::kAllReduce: Rotate(phases, n, places, part), Rotate(phases, n, places, part); break;
    case Communication::kAllGather:
    case Communication::kReduceScatter:
    case Communication::kAllToAll: Rotate(phases, n, places, part); break;
    case Communication::kAllToAllV: phases.push_back(FromMatrix(shape)); break;
    case Communication::kBroadcast: phases.push_back(AtRoot(shape, shape.bytes, true)); break;
    case Communication::kReduce: phases.push_back(AtRoot(shape, shape.bytes, false)); break;
    case Communication::kScatter: phases.push_back(AtRoot(shape, part, true)); break;
    case Communication::kGather: phases.push_back(AtRoot(shape, part, false)); break;
    default: return NoForm("direct", shape);
  }
  return Finished(std::move(phases), n);
}

}  // namespace twofold::sim
