#include "sim/latency.h"

#include <algorithm>

namespace twofold::sim {

double RouteLatency(const Topology& topology, RoutingPolicy policy, Pair pair, const std::vector<Path>& paths) {
  if (policy == RoutingPolicy::kDeterministic) return topology.Latency(pair).value();
  double mean = 0;
  for (const Path& path : paths) {
    for (int link : path.links) mean += path.share * topology.links()[static_cast<size_t>(link)].latency.value();
  }
  return mean;
}

double PhaseLatency(const Phase& phase, const std::vector<double>& latencies, double alpha) {
  const std::vector<Flow>& flows = phase.flows;
  const bool pipelined = std::any_of(flows.begin(), flows.end(), [](const Flow& f) { return f.crossings > 0; });
  double sum = 0, longest = flows.empty() ? alpha : 0;
  for (size_t i = 0; i < flows.size(); ++i) {
    const double latency = latencies[i] + flows[i].hop_seconds;
    sum += flows[i].crossings * latency;
    longest = std::max(longest, latency);
  }
  return phase.seconds + (pipelined ? sum : phase.rounds * longest);
}

}  // namespace twofold::sim
