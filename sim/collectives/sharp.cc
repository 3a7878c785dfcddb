// Reduction in the network (Graham et al. 2016, "Scalable Hierarchical Aggregation Protocol (SHARP)"): the switches
// between nodes add up what comes from below and send the result down again; a NIC sends n and receives n. g ranks per
// node, m nodes.
//
//   all_reduce  one rank per node:  a + n b   (a: once up and down)
//               several: reduce-scatter in the node (nvls if its switch supports it, else direct), the network's
//               reduction of n/g for each local number, all-gather in the node:
//                                 3 a + 2 (g-1)/g n b + n/g b,   with nvls   3 a + n (1 + 1/g) b + n/g b
//   reduce, broadcast   one rank per node:  a + n b
//
// A tree of switches carries every byte once over each leaf's uplink, and once down; a rotation in the order of places
// loads the leaves' links equally. Slingshot's NICs reduce small messages in the same form.
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

Phase Tree(const std::vector<std::vector<int>>& groups, double bytes) {
  Phase phase;
  for (const std::vector<int>& group : groups) {
    for (size_t i = 0; i < group.size(); ++i) phase.flows.push_back({group[i], group[(i + 1) % group.size()], bytes});
  }
  return phase;
}

}  // namespace

absl::StatusOr<Schedule> SharpSchedule(const CollectiveShape& shape, const Places& p) {
  if (!p.reduction_in_network) return NoForm("sharp", shape, "the switches between the nodes do not reduce (SHARP)");
  const int each = p.RanksPerNode();
  if (p.nodes < 2 || each == 0)
    return NoForm("sharp", shape, "it needs at least two nodes with the same number of ranks each");
  const bool known = shape.kind == Communication::kAllReduce || shape.kind == Communication::kReduce ||
                     shape.kind == Communication::kBroadcast;
  if (!known) return NoForm("sharp", shape);
  const std::vector<std::vector<int>> nodes = RanksByNode(p);
  std::vector<Phase> phases;
  if (each == 1) {
    phases.push_back(Tree(Transposed(nodes), shape.bytes));
    return Finished(std::move(phases), shape.ranks);
  }
  if (shape.kind != Communication::kAllReduce)
    return NoForm("sharp", shape, "with several ranks per node it supports only all_reduce");
  const CollectiveShape scatter{Communication::kReduceScatter, each, shape.bytes, 0, {}},
      gather{Communication::kAllGather, each, shape.bytes, 0, {}};
  auto in_nodes = [&](const CollectiveShape& part) {
    if (p.multicast_in_node) {  // half of nvls's n (1 + 1/g)
      phases.push_back(Tree(nodes, shape.bytes * (1 + 1.0 / each) / 2));
    } else {
      const Schedule direct = *DirectSchedule(part, p);
      for (const Phase& phase : direct.phases) phases.push_back(Lifted(phase, nodes));
    }
  };
  in_nodes(scatter);
  phases.push_back(Tree(Transposed(nodes), shape.bytes / each));
  in_nodes(gather);
  return Finished(std::move(phases), shape.ranks);
}

}  // namespace twofold::sim
