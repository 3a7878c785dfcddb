// What every topology's routes must be, checked on sampled pairs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "core/base/philox.h"
#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "topologies/graph/topology.h"

namespace twofold {

// Fewest links from `from` to every vertex; -1: none. Through other endpoints only where they forward.
inline std::vector<int> Distances(const Topology& t, int from) {
  std::vector<std::vector<int>> next(t.vertices().size());
  for (const Link& link : t.links()) next[static_cast<size_t>(link.from)].push_back(link.to);
  std::vector<int> distance(t.vertices().size(), -1);
  std::deque<int> queue = {from};
  distance[static_cast<size_t>(from)] = 0;
  while (!queue.empty()) {
    const int v = queue.front();
    queue.pop_front();
    if (v != from && v < t.endpoints() && !t.endpoints_forward()) continue;
    for (int w : next[static_cast<size_t>(v)]) {
      if (distance[static_cast<size_t>(w)] >= 0) continue;
      distance[static_cast<size_t>(w)] = distance[static_cast<size_t>(v)] + 1;
      queue.push_back(w);
    }
  }
  return distance;
}

inline std::string Text(const std::vector<int>& route) {
  std::string text;
  for (int link : route) StrAppend(&text, " ", link);
  return text;
}

// Why `route` is no path from `from` to `to` without a repeated link; empty: it is one.
inline std::string WrongInRoute(const Topology& t, Pair pair, const std::vector<int>& route) {
  int at = pair.from;
  std::set<int> seen;
  for (int l : route) {
    if (l < 0 || l >= static_cast<int>(t.links().size())) return StrCat("no link ", l, " in", Text(route));
    const Link& link = t.links()[static_cast<size_t>(l)];
    if (link.from != at)
      return StrCat("link ", link.name, " leaves vertex ", link.from, ", not ", at, ":", Text(route));
    if (!seen.insert(l).second) return StrCat("link ", link.name, " comes twice:", Text(route));
    at = link.to;
  }
  return at == pair.to ? "" : StrCat("ends at vertex ", at, ", not ", pair.to, ":", Text(route));
}

// Up to `pairs` pairs of different endpoints, the same ones always; all of them where there are no more.
inline std::vector<Pair> SamplePairs(const Topology& t, int pairs) {
  const int n = t.endpoints();
  std::vector<Pair> list;
  if (int64_t{n} * (n - 1) <= pairs) {
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) {
        if (i != j) list.push_back({i, j});
      }
    }
    return list;
  }
  for (uint64_t draw = 0; list.size() < static_cast<size_t>(pairs); ++draw) {
    const auto r = Philox(PhiloxKey{42}, draw);
    const Pair pair{static_cast<int>(r[0] % static_cast<uint32_t>(n)),
                    static_cast<int>(r[1] % static_cast<uint32_t>(n))};
    if (pair.from != pair.to) list.push_back(pair);
  }
  return list;
}

// Every route of sampled pairs (at most 300 of each kind) is a path, all are different, the default one is minimal, and
// (`minimal_is_shortest`) minimal ones have the fewest links there can be, detours more.
inline void ExpectGoodRoutes(const Topology& t, int pairs, bool minimal_is_shortest = true) {
  std::vector<int> route;
  for (const Pair pair : SamplePairs(t, pairs)) {
    const std::vector<int> distance = Distances(t, pair.from);
    const int64_t minimal = t.MinimalRoutes(pair), detours = t.Detours(pair);
    ASSERT_GE(minimal, 1);
    ASSERT_GE(t.DefaultRoute(pair), 0);
    ASSERT_LT(t.DefaultRoute(pair), minimal);
    std::set<std::vector<int>> all;
    size_t taken = 0;
    for (int64_t number = 0; number < minimal + detours; ++number) {
      if (number >= 300 && number < minimal) number = minimal;
      if (number >= minimal + 300) break;
      t.Route(pair, number, route);
      ASSERT_EQ(WrongInRoute(t, pair, route), "") << pair.from << " to " << pair.to << ", route " << number;
      all.insert(route);
      ++taken;
      const int least = distance[static_cast<size_t>(pair.to)], hops = static_cast<int>(route.size());
      if (!minimal_is_shortest) continue;
      if (number < minimal) {
        ASSERT_EQ(hops, least) << pair.from << " to " << pair.to << ", route " << number << ":" << Text(route);
      } else {
        ASSERT_GT(hops, least) << pair.from << " to " << pair.to << ", route " << number << ":" << Text(route);
      }
    }
    ASSERT_EQ(all.size(), taken) << pair.from << " to " << pair.to << ": routes that are the same";
  }
}

}  // namespace twofold
