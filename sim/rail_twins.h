// What a collective among equal nodes brings upon links: counted of one rail and of a few nodes, exactly for all.
//
// If a topology's rails are twins (Topology::rails_are_twins), the flows that nodes send each other on one rail load
// its links as those on any other rail load theirs, and no link belongs to two rails. So outside of nodes, the loads of
// the first rail's links are all the loads that there are. Within a node, links carry what its ranks send each other
// and what they send to and receive from other nodes, on all rails. Nodes with equally many such flows of each kind
// have the same loads, and one of them is counted.
//
// Not for policies that draw a flow's route at random or choose it by load, and not for ranks that sit in different
// places of their nodes.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/collectives/schedule.h"
#include "sim/link_states.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

class RailTwins {
 public:
  // nullopt: nothing is known of one rail by another, or the flows are not given by nodes (FlowPattern::by_node), or it
  // is a phase in step, whose latency is that of its slowest flow. All must outlive what is made. `endpoints`: by rank
  // of the group.
  static std::optional<RailTwins> Of(const Topology& topology, RoutingPolicy policy, const Phase& phase,
                                     std::span<const int> endpoints);
  // Each different load that a link has from all flows, at least once. `states` must have been started.
  void Cross(LinkStates& states) const;
  // Of the kinds that have crossings, by kind.
  std::vector<KindRoutes> Routes() const;

 private:
  RailTwins(const Topology& topology, const Phase& phase, std::span<const int> endpoints)
      : topology_(topology), phase_(phase), flows_(*phase.flows.pattern()->by_node()), endpoints_(endpoints) {}
  bool AreAlike() const;                     // the kinds on all rails, and the places of ranks in all nodes
  bool HaveRailsApart() const;               // senders, and receivers
  std::vector<size_t> CountedRails() const;  // each rail is like one of them
  const Flow& Kind(int kind) const { return phase_.flows.kinds()[static_cast<size_t>(kind)]; }
  int EndpointAt(int node, int local) const { return endpoints_[static_cast<size_t>(flows_.RankAt(node, local))]; }
  Pair PairOf(int node, const NodeFlows::Within& flow) const {
    return {EndpointAt(node, flow.from), EndpointAt(node, flow.to)};
  }
  Pair PairOf(const NodeFlows::Between& flow, const NodeFlows::Rail& rail) const {
    return {EndpointAt(flow.from, rail.from), EndpointAt(flow.to, rail.to)};
  }

  const Topology& topology_;
  const Phase& phase_;
  const NodeFlows& flows_;
  const std::span<const int> endpoints_;
};

}  // namespace twofold::sim
