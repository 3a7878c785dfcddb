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
// In all other cases, the flows are solved by class (flow_classes.h, block_shares.h), or singly (fluid.h) if they
// choose paths by load.
//
// Assumes and ignores the same as fluid.h.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/zeros.h"
#include "sim/collectives/schedule.h"
#include "sim/link_states.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_classifier.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold::sim {

class PhaseTimes {
 public:
  // Both must outlive this.
  PhaseTimes(const Topology& topology, Router& router);

  static constexpr double kUnknown = 2;
  // The most classes of flows of one phase that were solved.
  size_t most_classes() const { return most_classes_; }

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
    // Of any link's bandwidth, what the flows take at most. More than 1: links slow some of them down, or it is
    // unknown.
    double most = kUnknown;
    // Under adaptive routing, if not exact: the paths of the flows of all parts.
    std::shared_ptr<const Paths> paths = nullptr;
  };
  // Routes the flows and adds up what they bring upon each link. Under routing that does not depend on loads, this is
  // done once for phases of one part that differ only in their bytes by a factor, in limits and in costs of software.
  Time Bound(std::span<const Part> parts);
  // `time`: what Bound said of these parts. Makes it exact.
  void Solve(std::span<const Part> parts, Time& time);
  // Under routing that depends on loads: into how many parts a flow was divided at least, each with its own path. Less
  // than RoutingOptions::most_paths in phases of very many flows, if each rank sends many of them.
  std::optional<int> fewest_paths() const { return fewest_paths_; }

 private:
  using Use = LinkUse;
  // Of the flows counted last: the links that need the longest at least and at most, if any. `alike`: all flows on the
  // latter have the same bytes.
  struct Extremes {
    std::optional<Use> busiest = std::nullopt, slowest = std::nullopt;
    bool alike = false;
  };
  struct Bounds {
    double least, most;  // seconds that the flows need at least and at most
    bool meet;           // the time is `most`
  };

  // Calls visit(part, flow, share of its bytes, parts, its links) for every path of every flow; the share is that of
  // one of the path's parts. Returns each part's latency. `paths`: null if routing does not depend on loads. `routes`:
  // is filled with the latencies of the last part's routes that count.
  template <class Visit>
  std::vector<double> List(std::span<const Part> parts, const Paths* paths, std::vector<double>& routes, Visit&& visit);
  double LatencyOf(const Paths& paths, size_t flow) const;
  // The sizes of flows by kind, if these are few and a flow has one path: then loads are counted by size.
  struct Sizes {
    std::vector<double> bytes = {};  // each once
    std::vector<size_t> of = {};     // by kind; none: not counted by size
  };
  Sizes SizesOf(const Part& part) const;
  // A hash of where flows go and how a byte crosses them, with their bytes as shares of the first one's. Two phases
  // with the same pattern have the same extremes, up to a factor. If flows are counted by size, of which kinds have the
  // same size instead of their bytes: two phases with the same pattern have the same loads.
  using Pattern = std::pair<uint64_t, uint64_t>;
  static Pattern PatternOf(const Part& part, const Sizes& sizes);
  Time BoundByPattern(const Part& part);
  // Of flows without bytes; nullopt: they must be listed.
  std::optional<Time> BoundOfNothing(const Part& part);
  std::shared_ptr<const Paths> Route(std::span<const Part> parts);
  struct Known;
  // The routes of the flows of a phase that have bytes, and what they bring upon links.
  void CountPhase(const Part& part, const Sizes& sizes, Known& into);
  static double MostOf(const std::vector<LinkStates::Load>& loads, const Sizes& sizes, const std::vector<Flow>& kinds);
  void Count(std::span<const int> links, double bytes, int parts);  // bytes: of each part
  std::vector<double> EndsByClass(const std::shared_ptr<const FlowSet>& flows);
  Extremes TakeExtremes();
  // Of `factor` times the bytes. `limited`: seconds that a flow needs at its limit, the longest.
  static Bounds BoundsOf(const Extremes& extremes, double factor, double limited);

  const Topology& topology_;
  Router& router_;
  Zeros<double> bandwidths_;          // by link; 0: no flow has crossed it yet
  Zeros<uint64_t> seen_;              // by link: the count in which a flow last crossed it, and its place in uses_ then
  std::optional<LinkStates> states_;  // made when first needed
  uint64_t counting_ = 1;             // number of the present count
  std::optional<int> fewest_paths_;
  // Of the phase that was routed last. Their memory, which may be large, is used again once nobody else has them.
  std::vector<Request> requests_;
  std::shared_ptr<Paths> paths_;
  std::vector<Use> uses_;  // of the links that the flows counted now cross
  // What was found for patterns, the latest last. The next size of a collective often has the same.
  struct Known {
    Pattern pattern;
    std::shared_ptr<const FlowPattern> flows;  // null: they were listed one by one
    double bytes;                              // of the first flow
    Extremes extremes = {};                    // if they are not counted by size
    std::vector<LinkStates::Load> loads = {};  // of links, if they are
    std::vector<double> routes = {};           // latencies, by flow; 0 where they do not count
    std::vector<KindRoutes> by_kind = {};      // instead of these, if one rail was counted for all
  };
  std::deque<Known> known_;
  std::optional<FlowClassifier> classifier_;  // made when first needed
  // What Solve classified last, by HashOf: the next size of a collective often has the same flows.
  std::optional<std::pair<std::pair<uint64_t, uint64_t>, FlowClasses>> last_classes_;
  size_t most_classes_ = 0;
};

}  // namespace twofold::sim
