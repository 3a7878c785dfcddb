#include "topologies/graph/topology.h"

#include <algorithm>

namespace twofold {

std::string_view MediumName(Medium medium) {
  switch (medium) {
    case Medium::kMemory: return "memory";
    case Medium::kNvlink: return "nvlink";
    case Medium::kPcie: return "pcie";
    case Medium::kNetwork: return "network";
  }
  return "?";
}

void Topology::Routes(Pair pair, std::span<const int64_t> numbers, std::vector<int>& links,
                      std::vector<size_t>& ends) const {
  std::vector<int> route;
  for (const int64_t number : numbers) {
    Route(pair, number, route);
    links.insert(links.end(), route.begin(), route.end());
    ends.push_back(links.size());
  }
}

Topology::Middle Topology::MiddleOf(Pair pair, std::vector<int>& head, std::vector<int>& tail) const {
  head.clear(), tail.clear();
  return {this, pair, 0};
}

Seconds Topology::Latency(Pair pair) const {
  std::vector<int> route;
  Route(pair, DefaultRoute(pair), route);
  Seconds sum{0};
  for (int link : route) sum = sum + RatesOf(link).latency;
  return sum;
}

Seconds Topology::alpha() const { return endpoints() < 2 ? Seconds(0) : Latency({0, endpoints() - 1}); }

BytesPerSecond Topology::bandwidth() const {
  if (endpoints() < 2) return BytesPerSecond(1e12);
  const Pair far{0, endpoints() - 1};
  std::vector<int> route;
  Route(far, DefaultRoute(far), route);
  BytesPerSecond least = RatesOf(route[0]).bandwidth;
  for (int link : route) least = std::min(least, RatesOf(link).bandwidth);
  return least;
}

}  // namespace twofold
