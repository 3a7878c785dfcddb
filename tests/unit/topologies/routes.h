// Routes of topologies, for tests.
#pragma once

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "topologies/topology.h"

namespace twofold {

inline std::vector<int> RouteOf(const Topology& t, Pair pair, int64_t number = 0) {
  std::vector<int> route;
  t.Route(pair, number, route);
  return route;
}

// Each link's `to` is the next one's `from`; the first leaves the one endpoint, the last reaches the other.
inline void ExpectConnects(const Topology& t, Pair pair, const std::vector<int>& route) {
  ASSERT_FALSE(route.empty());
  int at = pair.from;  // endpoints are the first vertices
  for (int l : route) {
    const Link& link = t.links()[static_cast<size_t>(l)];
    ASSERT_EQ(link.from, at) << link.name << " on the way from " << pair.from << " to " << pair.to;
    at = link.to;
  }
  ASSERT_EQ(at, pair.to);
}

// For some pairs (all of small topologies): the default route, the first and the last minimal ones and detours connect, and
// the way back is as long and as late.
inline void ExpectRoutesConnect(const Topology& t, int pairs_a_side = 20) {
  const int step = std::max(1, t.endpoints() / pairs_a_side);
  for (int a = 0; a < t.endpoints(); a += step) {
    for (int b = t.endpoints() - 1; b >= 0; b -= step) {
      if (a == b) continue;
      const Pair pair{a, b};
      const int64_t minimal = t.MinimalRoutes(pair), all = minimal + t.Detours(pair);
      ASSERT_GE(minimal, 1);
      ASSERT_LT(t.DefaultRoute(pair), minimal);
      for (int64_t n : {t.DefaultRoute(pair), int64_t{0}, minimal - 1, minimal, all - 1}) {
        if (n < all) ExpectConnects(t, pair, RouteOf(t, pair, n));
        if (testing::Test::HasFatalFailure()) return;
      }
      const Pair back{b, a};
      ASSERT_EQ(t.MinimalRoutes(back), minimal);
      ASSERT_NEAR(t.Latency(back).value(), t.Latency(pair).value(), 1e-12);
      double sum = 0;
      for (int l : RouteOf(t, pair, t.DefaultRoute(pair))) sum += t.links()[static_cast<size_t>(l)].latency.value();
      ASSERT_NEAR(t.Latency(pair).value(), sum, 1e-12);
    }
  }
}

}  // namespace twofold
