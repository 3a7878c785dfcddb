// Ring (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"): every rank sends only to the next one; a
// node's ranks are consecutive. Rounds follow one another without a pause, so a byte that goes around crosses all links
// in turn: the latency is the mean of the hops, not the slowest.
//
//   all_reduce      2(N-1) rounds of n/N:   2(N-1) a + 2 (N-1)/N n b
//   all_gather      N-1 rounds of n/N:      (N-1) a + (N-1)/N n b       (n: the gathered tensor)
//   reduce_scatter  the same                                            (n: the tensor that is scattered)
//   broadcast       a pipelined chain:      (N-1) a + n b
//   reduce          the same, towards the root
//
// If nodes have several NICs, there is a ring for each NIC. It enters a node at a rank that owns the NIC, leaves by the
// same NIC, and carries its share of the bytes (NCCL's rings, "multi-rail").
#include <numeric>

#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

struct Ring {
  std::vector<int> order;  // ranks
  int rail;
};

// The NICs that are owned by ranks of every node; if there is only one, none is listed.
std::vector<int> SharedRails(const Places& p) {
  std::vector<std::vector<int>> seen(static_cast<size_t>(p.rails), std::vector<int>(static_cast<size_t>(p.nodes)));
  for (int r = 0; r < p.ranks(); ++r)
    seen[static_cast<size_t>(p.rail[static_cast<size_t>(r)])][static_cast<size_t>(p.node[static_cast<size_t>(r)])] = 1;
  std::vector<int> rails;
  for (int k = 0; k < p.rails; ++k) {
    const auto& nodes = seen[static_cast<size_t>(k)];
    if (std::accumulate(nodes.begin(), nodes.end(), 0) == p.nodes) rails.push_back(k);
  }
  if (rails.size() < 2) return {-1};
  return rails;
}

// `first`: the rank at which the ring begins.
std::vector<Ring> Rings(const Places& p, int first) {
  const int n = p.ranks();
  std::vector<Ring> rings;
  if (p.one_link) {
    rings.push_back({{}, -1});
    for (int i = 0; i < n; ++i) rings[0].order.push_back((first + i) % n);
    return rings;
  }
  const std::vector<std::vector<int>> nodes = RanksByNode(p);
  for (int rail : SharedRails(p)) {
    Ring& ring = rings.emplace_back(Ring{{}, rail});
    ring.order.reserve(static_cast<size_t>(n));
    for (int k = 0; k < p.nodes; ++k) {
      const int node = (p.node[static_cast<size_t>(first)] + k) % p.nodes;
      const std::vector<int>& ranks = nodes[static_cast<size_t>(node)];
      size_t entry = 0;
      for (size_t i = ranks.size(); i-- > 0;) {
        if (k == 0 ? ranks[i] == first : p.rail[static_cast<size_t>(ranks[i])] == rail) entry = i;
      }
      for (size_t i = 0; i < ranks.size(); ++i) ring.order.push_back(ranks[(entry + i) % ranks.size()]);
    }
  }
  return rings;
}

}  // namespace

absl::StatusOr<Schedule> RingSchedule(const CollectiveShape& shape, const Places& places) {
  const int n = shape.ranks;
  int rounds = n - 1;
  double bytes = shape.bytes;  // per hop
  bool closed = true, backwards = false;
  switch (shape.kind) {
    case Communication::kAllReduce: rounds = 2 * (n - 1), bytes = shape.bytes / n * rounds; break;
    case Communication::kAllGather:
    case Communication::kReduceScatter: bytes = shape.bytes / n * rounds; break;
    case Communication::kBroadcast: closed = false; break;
    case Communication::kReduce: closed = false, backwards = true; break;
    default: return NoForm("ring", shape);
  }
  const std::vector<Ring> rings = Rings(places, closed ? 0 : shape.root);
  Phase phase{.rounds = rounds, .flows = {}};
  const size_t hops = static_cast<size_t>(closed ? n : n - 1);
  phase.flows.reserve(hops * rings.size());
  const double share = 1.0 / static_cast<double>(rings.size());
  for (const Ring& ring : rings) {
    for (size_t i = 0; i < hops; ++i) {
      int from = ring.order[i], to = ring.order[(i + 1) % ring.order.size()];
      const bool within = places.node[static_cast<size_t>(from)] == places.node[static_cast<size_t>(to)];
      if (backwards) std::swap(from, to);
      phase.flows.push_back({.from = from,
                             .to = to,
                             .bytes = bytes * share,
                             .rail = within ? -1 : ring.rail,
                             .crossings = rounds * share / static_cast<double>(hops)});
    }
  }
  return Finished({std::move(phase)}, n);
}

}  // namespace twofold::sim
