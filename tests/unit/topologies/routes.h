// Routes of topologies of any size, for tests; route_checks.h looks at more of smaller ones.
#pragma once

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/graph/topology.h"

namespace twofold {

inline std::vector<int> RouteOf(const Topology& t, Pair pair, int64_t number = 0) {
  std::vector<int> route;
  t.Route(pair, number, route);
  return route;
}

// Of sampled pairs the default route, the first and the last minimal one and the first and the last detour are paths,
// and Latency is that of the default route's links.
inline void ExpectRoutesConnect(const Topology& t, int pairs = 400) {
  for (const Pair pair : SamplePairs(t, pairs)) {
    const int64_t minimal = t.MinimalRoutes(pair), all = minimal + t.Detours(pair);
    ASSERT_GE(minimal, 1);
    ASSERT_LT(t.DefaultRoute(pair), minimal);
    for (int64_t number : {t.DefaultRoute(pair), int64_t{0}, minimal - 1, minimal, all - 1}) {
      if (number == all) continue;
      ASSERT_EQ(WrongInRoute(t, pair, RouteOf(t, pair, number)), "") << pair.from << " to " << pair.to;
    }
    double sum = 0;
    for (int l : RouteOf(t, pair, t.DefaultRoute(pair))) sum += t.links()[static_cast<size_t>(l)].latency.value();
    ASSERT_NEAR(t.Latency(pair).value(), sum, 1e-12 * std::max(1.0, sum)) << pair.from << " to " << pair.to;
  }
}

// Within a node: there and back there are as many routes, as long, as late and as wide.
inline void ExpectBackAsThere(const Topology& t) {
  for (int a = 0; a < t.endpoints(); ++a) {
    for (int b = 0; b < a; ++b) {
      ASSERT_EQ(t.MinimalRoutes({a, b}), t.MinimalRoutes({b, a}));
      ASSERT_EQ(t.Latency({a, b}), t.Latency({b, a}));
      const std::vector<int> there = RouteOf(t, {a, b});
      std::vector<int> back = RouteOf(t, {b, a});
      ASSERT_EQ(there.size(), back.size());
      for (size_t i = 0; i < there.size(); ++i) {
        const Link &one = t.links()[static_cast<size_t>(there[i])],
                   &other = t.links()[static_cast<size_t>(back[back.size() - 1 - i])];
        ASSERT_EQ(one.bandwidth, other.bandwidth) << a << " to " << b;
        ASSERT_EQ(one.from, other.to) << a << " to " << b;
      }
    }
  }
}

}  // namespace twofold
