#include "sim/latency.h"

namespace twofold::sim {

double RouteLatency(const Topology& topology, RoutingPolicy policy, Pair pair, const std::vector<Path>& paths) {
  if (policy == RoutingPolicy::kDeterministic) return topology.Latency(pair).value();
  double mean = 0;
  for (const Path& path : paths) {
    for (int link : path.links) mean += path.share * topology.RatesOf(link).latency.value();
  }
  return mean;
}

}  // namespace twofold::sim
