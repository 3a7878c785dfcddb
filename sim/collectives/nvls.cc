// NVLink SHARP (Klenk et al. 2020, "An in-network architecture for accelerating shared-memory multiprocessor
// collectives"; NCCL's NVLS): the switch inside a node adds up what it reads from all devices, and multicasts one store
// to all of them. g devices per node, m nodes; each device has a slice of n/g.
//
//   all_reduce      a device reads its slice, reduced: every device sends all its n bytes and receives n/g; then it
//                   stores the result to all: sends n/g, receives n. So n (1 + 1/g) on every link each way:
//                                                                                   2 a + n (1 + 1/g) b
//   all_gather      every device stores its part to all: receives n:                               a + n b
//   reduce_scatter  every device reads its part: sends n:                                          a + n b
//   broadcast       the root stores n to all; reduce: the root reads n from all:                   a + n b
//
// Each of these loads links like a rotation through the switch, from each device to the next, so it is modelled as one.
//
// Over several nodes (all_reduce): each slice is reduced in its node, all-reduced among the devices with the same local
// number by a ring or a double binary tree (whichever costs less by a and b), and stored to all. This is one pipeline,
// so NVLink and network work at once.   2 a + latency and bytes of that all-reduce of n/g among m; bytes add up only on
// shared links
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

// From each rank of a node to the next, through its switch; per round `crossings` of one message: the mean over all.
void Rotate(const std::vector<std::vector<int>>& nodes, int ranks, double bytes, int rounds, Phase& phase) {
  for (const std::vector<int>& node : nodes) {
    for (size_t i = 0; i < node.size(); ++i) {
      phase.flows.push_back({.from = node[i],
                             .to = node[(i + 1) % node.size()],
                             .bytes = bytes,
                             .crossings = static_cast<double>(rounds) / ranks});
    }
  }
  phase.rounds += rounds;
}

}  // namespace

absl::StatusOr<Schedule> NvlsSchedule(const CollectiveShape& shape, const Places& p) {
  if (!p.multicast_in_node)
    return NoForm("nvls", shape, "the nodes have no switch that reduces and multicasts (NVLink SHARP)");
  const int n = shape.ranks, each = p.RanksPerNode();
  if (each < 2) return NoForm("nvls", shape, "it needs the same number of ranks on every node, at least two");
  const std::vector<std::vector<int>> nodes = RanksByNode(p);
  Phase phase{.rounds = 0, .flows = {}};
  switch (shape.kind) {
    case Communication::kAllReduce: Rotate(nodes, n, shape.bytes * (1 + 1.0 / each), 2, phase); break;
    case Communication::kAllGather:
    case Communication::kReduceScatter:
    case Communication::kBroadcast:
    case Communication::kReduce:
      if (p.nodes > 1) return NoForm("nvls", shape, "across several nodes it supports only all_reduce");
      Rotate(nodes, n, shape.bytes, 1, phase);
      break;
    default: return NoForm("nvls", shape);
  }
  if (p.nodes > 1) {
    const CollectiveShape across{shape.kind, p.nodes, shape.bytes / each, 0, {}};
    const Places one_a_node = UniformPlaces(p.nodes, p.alpha, p.bandwidth);
    const auto ring = RingSchedule(across, one_a_node), tree = DoubleBinaryTreeSchedule(across, one_a_node);
    const bool rings = EstimateSeconds(*ring, one_a_node) <= EstimateSeconds(*tree, one_a_node);
    const Phase lifted = Lifted((rings ? ring : tree)->phases[0], Transposed(nodes));
    for (const Flow& f : lifted.flows) phase.flows.push_back(f);
    phase.rounds += lifted.rounds;
  }
  return Finished({std::move(phase)}, n);
}

}  // namespace twofold::sim
