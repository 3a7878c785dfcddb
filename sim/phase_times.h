// How long one phase of a collective takes if it has the network to itself.
//
// If flows share links max-min fairly, a link of bandwidth B that n flows cross serves each of them at B / n at least,
// unless another link slows them: the bottleneck of a flow is full and no flow on it is faster (Bertsekas and Gallager
// 1992, Data Networks, section 6.5.2), so the flow's rate is at least B / n there. As flows end, n only decreases.
// Therefore no flow takes longer than its bytes at the smallest B / n of its links, or at its own limit. No phase takes
// longer than the largest of these times. If all flows on the link that has it have the same bytes, that link needs
// just as long for them: the bound is the phase's time, and nothing has to be solved. A path of several parts counts as
// so many flows (routing.h), so this holds for flows of equal bytes under every policy.
//
// In all other cases, the flows are solved by class (flow_classes.h, fluid.h).
//
// Assumes and ignores the same as fluid.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/zeros.h"
#include "sim/collectives/schedule.h"
#include "sim/sharing/flow_classes.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

class PhaseTimes {
 public:
  // Both must outlive this.
  PhaseTimes(const Topology& topology, Router& router);

  // What one group does in a phase; all groups begin together. `endpoints`: by rank of the group.
  struct Part {
    const Phase& phase;
    std::span<const int> endpoints;
  };
  struct Time {
    double latency = 0;     // seconds, of the slowest group
    double seconds = 0;     // with latency, for the slowest group; the least that it can be, if not `exact`
    bool exact = false;     // always, once solved
    bool together = false;  // all groups end at once; only if exact
    // Under adaptive routing, if not exact: the paths of the flows of all parts.
    std::shared_ptr<const Paths> paths = nullptr;
  };
  // Routes the flows and adds up what they bring upon each link.
  Time Bound(std::span<const Part> parts);
  // `time`: what Bound said of these parts. Makes it exact.
  void Solve(std::span<const Part> parts, Time& time);

 private:
  // What flows bring upon a link.
  struct Use {
    double bandwidth;
    double bytes, most, least;  // of all flows; of one part of one of them
    int64_t count;              // of parts; a part counts each time that it crosses the link
  };
  // Of the flows counted last.
  struct Bounds {
    double least, most;  // seconds that they need at least and at most
    bool meet;           // the time is `most`
  };

  // Calls visit(part, flow, share of its bytes, parts, its links) for every path of every flow; the share is that of
  // one of the path's parts. Returns each part's latency. `paths`: null if routing does not depend on loads.
  template <class Visit>
  std::vector<double> List(std::span<const Part> parts, const Paths* paths, Visit&& visit);
  double LatencyOf(const Paths& paths, size_t flow) const;
  std::shared_ptr<const Paths> Route(std::span<const Part> parts);
  void Count(std::span<const int> links, double bytes, int parts);  // bytes: of each part
  Bounds TakeBounds();

  const Topology& topology_;
  Router& router_;
  Zeros<double> bandwidths_;  // by link; 0: no flow has crossed it yet
  Zeros<uint64_t> seen_;      // by link: the count in which a flow last crossed it, and its place in uses_ then
  uint64_t counting_ = 1;     // number of the present count
  std::vector<Use> uses_;     // of the links that the flows counted now cross
  double limited_ = 0;        // seconds: the longest that a flow needs at its limit
  std::optional<FlowClassifier> classifier_;  // made when first needed
  // What Solve classified last, by HashOf: the next size of a collective often has the same flows.
  std::optional<std::pair<std::pair<uint64_t, uint64_t>, FlowClasses>> last_classes_;
};

}  // namespace twofold::sim
