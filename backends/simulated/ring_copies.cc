#include "backends/simulated/ring_copies.h"

#include <algorithm>

namespace twofold {

bool RingCopies::Among(std::span<const int> ranks) const {
  if (static_cast<int>(ranks.size()) != mesh.tp) return false;
  MeshPlace first = PlaceOf(mesh, ranks.front());
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    const MeshPlace at = PlaceOf(mesh, rank);
    return at.pp == first.pp && at.dp == first.dp && at.cp == first.cp;
  });
}

std::optional<RingCopies> RingCopiesOf(const spec::Parallel& p, const framework::TpOverlap& framework,
                                       double launch_seconds) {
  if (!p.tp_overlap() || p.tp() < 2 || !framework.copy_engines()) return std::nullopt;
  RingCopies copies{.mesh = {.pp = static_cast<int>(p.pp()),
                             .dp = static_cast<int>(p.dp()),
                             .cp = static_cast<int>(p.cp()),
                             .tp = static_cast<int>(p.tp())},
                    .launch_seconds = framework.has_launch_us() ? framework.launch_us() * 1e-6 : launch_seconds};
  if (const auto order = ParseMeshOrder(p.order()); order.ok()) copies.mesh.order = *order;  // else refused elsewhere
  return copies;
}

}  // namespace twofold
