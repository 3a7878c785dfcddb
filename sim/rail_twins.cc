#include "sim/rail_twins.h"

#include <algorithm>
#include <limits>

namespace twofold::sim {

std::optional<RailTwins> RailTwins::Of(const Topology& topology, RoutingPolicy policy, const Phase& phase,
                                       std::span<const int> endpoints) {
  const FlowPattern* const pattern = phase.flows.pattern().get();
  if (pattern == nullptr || pattern->by_node() == nullptr || (!IsPipelined(phase) && phase.rounds > 0) ||
      policy != RoutingPolicy::kDeterministic || !topology.rails_are_twins())
    return std::nullopt;
  const RailTwins twins(topology, phase, endpoints);
  return twins.AreAlike() && twins.HaveRailsApart() ? std::optional(twins) : std::nullopt;
}

bool RailTwins::AreAlike() const {
  const auto differ = [this](const NodeFlows::Between& b) { return Kind(b.first).bytes != Kind(b.others).bytes; };
  const std::vector<Flow>& kinds = phase_.flows.kinds();
  if (std::any_of(kinds.begin(), kinds.end(), [](const Flow& kind) { return kind.rail >= 0; }) ||
      std::any_of(flows_.between.begin(), flows_.between.end(), differ))
    return false;
  const int devices = topology_.endpoints() / topology_.nodes();
  for (int v = 0; v < flows_.nodes(); ++v) {
    const int base = EndpointAt(v, 0) / devices * devices;
    for (int l = 0; l < flows_.each; ++l) {
      if (EndpointAt(v, l) - base != EndpointAt(0, l) % devices) return false;
    }
  }
  return true;
}

bool RailTwins::HaveRailsApart() const {
  std::vector<bool> sends(static_cast<size_t>(topology_.rails())), receives(sends.size());
  size_t straight = 0;  // that receive on the rail on which they send
  for (const NodeFlows::Rail& rail : flows_.rails) {
    const auto from = static_cast<size_t>(topology_.RailOf(EndpointAt(0, rail.from)));
    const auto to = static_cast<size_t>(topology_.RailOf(EndpointAt(0, rail.to)));
    if (sends[from] || receives[to]) return false;
    sends[from] = receives[to] = true;
    straight += from == to;
  }
  return straight == 0 || straight == flows_.rails.size();
}

void RailTwins::Cross(LinkStates& states) const {
  const std::vector<int> alike = flows_.AlikeTo();
  const auto counted = [&alike](int node) { return alike[static_cast<size_t>(node)] == node; };
  const int each = topology_.links_of_node(), outside = each * topology_.nodes();
  std::vector<int> route;
  // The part of a route that belongs to [begin, end) is in one piece.
  const auto cross = [&](Pair pair, int kind, int begin, int end) {
    if (Kind(kind).bytes == 0) return;
    topology_.Route(pair, topology_.DefaultRoute(pair), route);
    const auto own = [begin, end](int link) { return link >= begin && link < end; };
    const auto first = std::find_if(route.begin(), route.end(), own);
    states.Cross({first, std::find_if_not(first, route.end(), own)}, Kind(kind).bytes);
  };
  const auto links_of = [&](int node) { return each * topology_.NodeOf(EndpointAt(node, 0)); };
  for (int v = 0; v < flows_.nodes(); ++v) {
    for (size_t w = 0; w < flows_.within.size() && counted(v); ++w) {
      const NodeFlows::Within& flow = flows_.within[w];
      if (flows_.Has(flow, v)) cross(PairOf(v, flow), NodeFlows::KindOf(flow, v), links_of(v), links_of(v) + each);
    }
  }
  const std::vector<size_t> rails = CountedRails();
  for (const NodeFlows::Between& b : flows_.between) {
    const auto cross_on = [&](size_t rail, int begin, int end) {
      if (flows_.Has(b, rail)) cross(PairOf(b, flows_.rails[rail]), NodeFlows::KindOf(b, rail), begin, end);
    };
    for (const size_t r : rails) cross_on(r, outside, std::numeric_limits<int>::max());
    for (const int node : {b.from, b.to}) {
      for (size_t r = 0; r < flows_.rails.size() && counted(node); ++r)
        cross_on(r, links_of(node), links_of(node) + each);
    }
  }
}

// The first one, and one with the root's flows and one without, if there is a root.
std::vector<size_t> RailTwins::CountedRails() const {
  std::vector<size_t> rails = {0};
  if (flows_.root.node < 0) return rails;
  for (size_t r = 0; r < flows_.rails.size(); ++r) {
    const NodeFlows::Rail& rail = flows_.rails[r];
    if ((flows_.root.sends ? rail.to : rail.from) == flows_.root.local) rails.push_back(r);
  }
  if (rails.back() == 0 && flows_.rails.size() > 1) rails.push_back(1);
  rails.erase(std::unique(rails.begin(), rails.end()), rails.end());
  return rails;
}

std::vector<KindRoutes> RailTwins::Routes() const {
  std::vector<KindRoutes> routes(phase_.flows.kinds().size());
  const auto add = [&](int kind, Pair pair, size_t flows) {
    if (flows == 0 || Kind(kind).crossings == 0) return;
    KindRoutes& of = routes[static_cast<size_t>(kind)];
    of.flows += flows, of.seconds += static_cast<double>(flows) * topology_.Latency(pair).value();
  };
  for (const NodeFlows::Within& w : flows_.within) {
    add(w.first, PairOf(0, w), flows_.Has(w, 0));
    add(w.others, PairOf(flows_.nodes() - 1, w), flows_.Others(w));
  }
  for (const NodeFlows::Between& b : flows_.between) {
    add(b.first, PairOf(b, flows_.rails[0]), flows_.Has(b, 0));
    add(b.others, PairOf(b, flows_.rails[0]), flows_.Others(b));
  }
  return routes;
}

}  // namespace twofold::sim
