// Hierarchical: first inside nodes, then between the ranks with the same local number, which use all NICs at once, then
// inside nodes again (like Cho et al. 2019, "BlueConnect", with two dimensions). m nodes of g ranks each; N = m g.
//
//   all_reduce      reduce-scatter of n in the node, all-reduce of n/g between nodes, all-gather of n in the node:
//                   2 a + 2 (g-1)/g n b + R(n/g),  R: all-reduce among m
//   all_gather      among m of n/g, then in the node:        A(n/g) + a + (g-1)/g n b,   A: all-gather among m
//   reduce_scatter  the other way around                     likewise
//   broadcast       scatter in the root's node, broadcast of n/g among m, all-gather:   2 a + 2 (g-1)/g n b + B(n/g)
//   reduce          the same in reverse
//   all_to_all      in the node the data for each local number, then between nodes:   2 a + (g-1)/g n b + (m-1)/m n b
//
// Inside a node all ranks send to all at once (direct). Between nodes R, A and B are the cheapest by alpha and
// bandwidth among ring, recursive doubling, halving-doubling and tree.
#include <limits>

#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

class Composer {
 public:
  Composer(const CollectiveShape& shape, const Places& p)
      : nodes_(RanksByNode(p)), peers_(Transposed(nodes_)), places_(p) {
    const auto root = static_cast<size_t>(shape.root);
    root_node_ = p.node[root], root_local_ = p.local[root];
  }
  int nodes() const { return static_cast<int>(nodes_.size()); }
  int each() const { return static_cast<int>(peers_.size()); }

  void Inside(Communication::Kind kind, double bytes) {
    Add(*DirectSchedule({kind, each(), bytes, 0, {}}, places_), nodes_);
  }
  void InRootsNode(Communication::Kind kind, double bytes) {
    Add(*DirectSchedule({kind, each(), bytes, root_local_, {}}, places_), {nodes_[static_cast<size_t>(root_node_)]});
  }
  void Across(Communication::Kind kind, double bytes) {
    const Places uniform = UniformPlaces(nodes(), places_.alpha, places_.bandwidth);
    const CollectiveShape shape{kind, nodes(), bytes, root_node_, {}};
    double least = std::numeric_limits<double>::infinity();
    Schedule best;
    for (auto make : {RingSchedule, RecursiveDoublingSchedule, HalvingDoublingSchedule, TreeSchedule, DirectSchedule}) {
      if (make == DirectSchedule && kind != Communication::kAllToAll) continue;
      absl::StatusOr<Schedule> schedule = make(shape, uniform);
      if (!schedule.ok()) continue;
      const double seconds = EstimateSeconds(*schedule, uniform);
      if (seconds < least) least = seconds, best = *std::move(schedule);
    }
    Add(best, peers_);
  }
  std::vector<Phase> Take() { return std::move(phases_); }

 private:
  void Add(const Schedule& schedule, const std::vector<std::vector<int>>& groups) {
    for (const Phase& phase : schedule.phases) phases_.push_back(Lifted(phase, groups));
  }

  const std::vector<std::vector<int>> nodes_, peers_;
  const Places& places_;
  int root_node_, root_local_;
  std::vector<Phase> phases_;
};

}  // namespace

absl::StatusOr<Schedule> HierarchicalSchedule(const CollectiveShape& shape, const Places& p) {
  if (p.RanksPerNode() < 2 || p.nodes < 2) {
    return NoForm("hierarchical", shape,
                  "it needs at least two nodes with the same number of ranks each, at least two");
  }
  Composer c(shape, p);
  const double n = shape.bytes, slice = n / c.each();
  switch (shape.kind) {
    case Communication::kAllReduce:
      c.Inside(Communication::kReduceScatter, n), c.Across(shape.kind, slice), c.Inside(Communication::kAllGather, n);
      break;
    case Communication::kAllGather: c.Across(shape.kind, slice), c.Inside(shape.kind, n); break;
    case Communication::kReduceScatter: c.Inside(shape.kind, n), c.Across(shape.kind, slice); break;
    case Communication::kBroadcast:
      c.InRootsNode(Communication::kScatter, n), c.Across(shape.kind, slice), c.Inside(Communication::kAllGather, n);
      break;
    case Communication::kReduce:
      c.Inside(Communication::kReduceScatter, n), c.Across(shape.kind, slice), c.InRootsNode(Communication::kGather, n);
      break;
    case Communication::kAllToAll: c.Inside(shape.kind, n), c.Across(shape.kind, n); break;
    default: return NoForm("hierarchical", shape);
  }
  return Finished(c.Take(), shape.ranks);
}

}  // namespace twofold::sim
