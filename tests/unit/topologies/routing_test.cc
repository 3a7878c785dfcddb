#include "topologies/routing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/star.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace routing_test {

double Sum(const std::vector<Path>& paths) {
  return std::accumulate(paths.begin(), paths.end(), 0.0, [](double sum, const Path& p) { return sum + p.share; });
}

// Seconds that each link needs for what is on it, as fluids without queues.
class Loads {
 public:
  explicit Loads(const Topology& t) : t_(t), seconds_(t.links().size()) {}
  void Add(const std::vector<Path>& paths, double bytes) {
    for (const Path& path : paths) {
      for (int l : path.links) {
        seconds_[static_cast<size_t>(l)] += bytes * path.share / t_.links()[static_cast<size_t>(l)].bandwidth.value();
      }
    }
  }
  double Of(int link) const { return seconds_[static_cast<size_t>(link)]; }
  double Most() const { return *std::max_element(seconds_.begin(), seconds_.end()); }

 private:
  const Topology& t_;
  std::vector<double> seconds_;
};

TEST(RoutingTest, NamesGoBothWays) {
  for (const char* name : {"deterministic", "ecmp", "spray", "valiant", "adaptive"}) {
    const auto policy = RoutingNamed(name);
    ASSERT_TRUE(policy.ok());
    EXPECT_EQ(RoutingName(*policy), name);
  }
  const auto bad = RoutingNamed("random");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(),
            "unknown routing policy \"random\"; use one of deterministic, ecmp, spray, valiant, adaptive");
}

// Whatever the policy: paths from end to end whose shares sum to 1, none twice; the same calls give the same paths.
TEST(RoutingTest, PathsAreRoutes) {
  const std::unique_ptr<Topology> topologies[] = {MakeFatTree({.ports = 128, .levels = 3, .radix = 8}),
                                                  MakeDragonfly({}), MakeTorus({.dims = {4, 5, 6}}),
                                                  MakeStar({.hosts = 5})};
  for (const auto& t : topologies) {
    for (const RoutingPolicy policy : kRoutingPolicies) {
      const RoutingOptions options{.policy = policy, .seed = 7, .most_paths = 5};
      Router router(*t, options), again(*t, options);
      EXPECT_EQ(router.depends_on_load(), policy == RoutingPolicy::kAdaptive);
      std::vector<Path> paths, same;
      uint64_t flow = 0;
      for (const Pair pair : SamplePairs(*t, 200)) {
        router.Choose(pair, ++flow, 1e6, paths);
        again.Choose(pair, flow, 1e6, same);
        ASSERT_LE(paths.size(), 5u);
        ASSERT_NEAR(Sum(paths), 1, 1e-12);
        std::set<std::vector<int>> all;
        for (size_t i = 0; i < paths.size(); ++i) {
          ASSERT_EQ(WrongInRoute(*t, pair, paths[i].links), "");
          all.insert(paths[i].links);
          ASSERT_EQ(paths[i].links, same[i].links);
          ASSERT_EQ(paths[i].share, same[i].share);
        }
        ASSERT_EQ(all.size(), paths.size());
        if (flow % 3 == 0) router.Finished(paths, 1e6), again.Finished(same, 1e6);
      }
    }
  }
}

TEST(RoutingTest, DeterministicTakesTheDefault) {
  const auto tree = MakeFatTree({.ports = 128, .levels = 3, .radix = 8});
  Router router(*tree, {});
  std::vector<Path> paths;
  std::vector<int> route;
  for (const Pair pair : SamplePairs(*tree, 200)) {
    router.Choose(pair, 3, 1, paths);
    tree->Route(pair, tree->DefaultRoute(pair), route);
    ASSERT_EQ(paths.size(), 1u);
    EXPECT_EQ(paths[0].links, route);
  }
}

// 12,800 flows over 16 routes, by flow number, by destination and by seed: each is a fair die (chi-square of 15 degrees
// of freedom: 99.9 % are below 37.7).
TEST(RoutingTest, EcmpIsAFairDie) {
  const auto tree = MakeFatTree({.ports = 512, .radix = 32});
  for (const char* by : {"flow", "destination", "rail"}) {
    std::map<std::vector<int>, int> ups;
    std::vector<Path> paths;
    const int flows = 12800;
    for (int i = 0; i < flows; ++i) {
      const std::string what = by;
      Router router(*tree, {.policy = RoutingPolicy::kEcmp, .seed = 11});
      Pair pair{0, what == "destination" ? 16 + i % 496 : 500, what == "rail" ? i : -1};
      router.Choose(pair, what == "rail" ? 0 : static_cast<uint64_t>(what == "destination" ? i / 496 : i), 1, paths);
      ASSERT_EQ(paths.size(), 1u);
      ++ups[{paths[0].links[1]}];
    }
    ASSERT_EQ(ups.size(), 16u) << by;
    double chi_square = 0;
    for (const auto& [up, count] : ups) chi_square += std::pow(count - flows / 16.0, 2) / (flows / 16.0);
    EXPECT_LT(chi_square, 37.7) << by;
    EXPECT_GT(chi_square, 2) << by;  // nor a round robin
  }
}

TEST(RoutingTest, EcmpDependsOnTheSeed) {
  const auto tree = MakeFatTree({.ports = 512, .radix = 32});
  int same = 0;
  for (uint64_t flow = 0; flow < 1600; ++flow) {
    std::vector<Path> a, b;
    Router(*tree, {.policy = RoutingPolicy::kEcmp, .seed = 1}).Choose({0, 500}, flow, 1, a);
    Router(*tree, {.policy = RoutingPolicy::kEcmp, .seed = 2}).Choose({0, 500}, flow, 1, b);
    same += a[0].links == b[0].links;
  }
  EXPECT_NEAR(same, 100, 40);  // one in 16
}

TEST(RoutingTest, SprayIsEven) {
  const auto tree = MakeFatTree({.ports = 512, .radix = 32});
  for (const auto& [most, count] : {std::pair(4, 4), std::pair(16, 16), std::pair(100, 16)}) {
    Router router(*tree, {.policy = RoutingPolicy::kSpray, .most_paths = most});
    std::vector<Path> paths;
    Loads loads(*tree);
    for (int p = 0; p < 512; ++p) {
      router.Choose({p, (p + 16) % 512}, 0, 1, paths);
      ASSERT_EQ(paths.size(), static_cast<size_t>(count));
      for (const Path& path : paths) ASSERT_EQ(path.share, 1.0 / count);
      loads.Add(paths, 25e9);
    }
    EXPECT_NEAR(loads.Most(), 1, 1e-9) << most;  // a shift meets no contention, with few paths either
  }
}

// All ports of one switch send to those of another in the same group of a dragonfly: over the one cable between them,
// or evenly over that and the other a - 2 switches. All of those have a cable to both, so no cable carries more than 1
// / (a - 1) of what the p ports send.
TEST(RoutingTest, ValiantDetoursWithinAGroup) {
  const DragonflyOptions shape{.p = 4, .a = 8, .h = 4};
  const auto fly = MakeDragonfly(shape);
  const auto most = [&](const RoutingOptions& options) {
    Router router(*fly, options);
    std::vector<Path> paths;
    Loads loads(*fly);
    for (int port = 0; port < shape.p; ++port) {
      router.Choose({port, shape.p + port}, 0, 1, paths);
      loads.Add(paths, 25e9);
    }
    return loads.Most();
  };
  EXPECT_NEAR(most({.policy = RoutingPolicy::kSpray}), shape.p, 1e-9);
  EXPECT_NEAR(most({.policy = RoutingPolicy::kValiant}), 1, 1e-9);  // a port's own cable
  EXPECT_NEAR(most({.policy = RoutingPolicy::kValiant, .most_paths = 2}), shape.p / 2.0, 1e-9);
}

// Between groups half of the paths are minimal if there are as many. Without detours valiant is spray.
TEST(RoutingTest, ValiantKeepsMinimalRoutes) {
  const auto fly = MakeDragonfly({.p = 2, .a = 4, .h = 2});
  const auto tree = MakeFatTree({.ports = 128, .levels = 3, .radix = 8});
  std::vector<Path> paths, sprayed;
  for (const Pair pair : SamplePairs(*fly, 200)) {
    const int64_t minimal = fly->MinimalRoutes(pair), detours = fly->Detours(pair);
    Router(*fly, {.policy = RoutingPolicy::kValiant, .most_paths = 6}).Choose(pair, 0, 1, paths);
    const int64_t kept = detours == 0 ? std::min<int64_t>(6, minimal) : std::min<int64_t>(3, minimal);
    EXPECT_EQ(static_cast<int64_t>(paths.size()), kept + std::min(detours, 6 - kept));
    std::set<std::vector<int>> shortest;
    std::vector<int> route;
    for (int64_t r = 0; r < minimal; ++r) fly->Route(pair, r, route), shortest.insert(route);
    for (size_t p = 0; p < paths.size(); ++p)
      EXPECT_EQ(shortest.contains(paths[p].links), static_cast<int64_t>(p) < kept);
  }
  for (const Pair pair : SamplePairs(*tree, 50)) {
    Router(*tree, {.policy = RoutingPolicy::kValiant}).Choose(pair, 0, 1, paths);
    Router(*tree, {.policy = RoutingPolicy::kSpray}).Choose(pair, 0, 1, sprayed);
    ASSERT_EQ(paths.size(), sprayed.size());
    for (size_t p = 0; p < paths.size(); ++p) EXPECT_EQ(paths[p].links, sprayed[p].links);
  }
}

// Zahavi 2010: d-mod-k gives each destination one spine, the same from everywhere, evenly; shifts meet no contention.
TEST(RoutingTest, DModKSpreadsDestinationsEvenly) {
  for (const FatTreeOptions& o :
       {FatTreeOptions{.ports = 128, .radix = 16}, FatTreeOptions{.ports = 1024, .levels = 3, .radix = 16},
        FatTreeOptions{.ports = 128, .radix = 16, .rails = 4},
        FatTreeOptions{.ports = 768, .levels = 3, .radix = 16, .rails = 3}}) {
    const auto tree = MakeFatTree(o);
    std::map<int, std::set<int>> below;  // by the topmost link down: the destinations that come over it
    std::vector<int> route;
    for (int to = 0; to < o.ports; ++to) {
      std::set<int> top;
      for (int from = 0; from < o.ports; ++from) {
        if (from == to) continue;
        tree->Route({from, to}, tree->DefaultRoute({from, to}), route);
        const size_t longest = o.levels == 2 ? 4 : 6;
        if (route.size() != longest) continue;
        top.insert(route[longest / 2]);
        below[route[longest / 2]].insert(to);
      }
      ASSERT_EQ(top.size(), 1u) << "one spine for destination " << to;
    }
    size_t least = below.begin()->second.size(), most = least;
    for (const auto& [link, destinations] : below) {
      least = std::min(least, destinations.size()), most = std::max(most, destinations.size());
    }
    EXPECT_EQ(least, most) << o.levels << " levels, " << o.rails << " rails";
    for (int shift : {1, 8, 17, 64}) {
      Loads loads(*tree);
      Router router(*tree, {});
      std::vector<Path> paths;
      for (int p = 0; p < o.ports; ++p) {
        router.Choose({p, (p + shift * o.rails) % o.ports}, 0, 1, paths);
        loads.Add(paths, 25e9);
      }
      EXPECT_NEAR(loads.Most(), 1, 1e-9) << "shift " << shift << ", " << o.levels << " levels, " << o.rails << " rails";
    }
  }
}

// Several routes at once, and without the links that all of a pair's routes have: what Route gives one by one.
TEST(RoutingTest, RoutesTakenApartAreTheRoutes) {
  size_t heads = 0;
  for (const char* name : {"polaris", "frontier", "hammingmesh-1k", "tpu-v4-pod", "dgx-h100", "gb200-nvl72"}) {
    const cluster::Cluster cluster = *FindCluster(name);
    const auto t = *BuildTopology(cluster, static_cast<int>(std::min<int64_t>(MostNodes(cluster), 1024)));
    std::vector<int> route, head, tail, links;
    std::vector<size_t> ends;
    for (const Pair pair : SamplePairs(*t, 200)) {
      const int64_t all = t->MinimalRoutes(pair) + t->Detours(pair);
      const std::array<int64_t, 4> numbers = {0, all - 1, all / 2, (pair.to * int64_t{7919}) % all};
      const auto [network, ports, first_link] = t->MiddleOf(pair, head, tail);
      heads += !head.empty() && !tail.empty();
      links.assign(1, -1), ends.clear();  // they are appended
      network->Routes(ports, numbers, links, ends);
      ASSERT_EQ(ends.size(), numbers.size());
      ASSERT_EQ(ends.back(), links.size());
      size_t begin = 1;
      for (size_t n = 0; n < numbers.size(); begin = ends[n++]) {
        std::vector<int> whole = head;
        for (size_t l = begin; l < ends[n]; ++l) whole.push_back(links[l] + first_link);
        whole.insert(whole.end(), tail.begin(), tail.end());
        t->Route(pair, numbers[n], route);
        ASSERT_EQ(whole, route) << name << ", route " << numbers[n] << " from " << pair.from << " to " << pair.to;
      }
    }
  }
  EXPECT_GT(heads, 400u);
}

TEST(AdaptiveRoutingTest, AloneItIsMinimal) {
  const auto dragonfly = MakeDragonfly({});
  for (const Pair pair : SamplePairs(*dragonfly, 300)) {
    Router router(*dragonfly, {.policy = RoutingPolicy::kAdaptive});
    std::vector<Path> paths;
    std::vector<int> route;
    router.Choose(pair, 0, 1e9, paths);
    dragonfly->Route(pair, 0, route);
    ASSERT_EQ(paths.size(), 1u);
    EXPECT_EQ(paths[0].links, route);
    EXPECT_EQ(paths[0].share, 1);
  }
}

TEST(AdaptiveRoutingTest, ItAvoidsWhatIsLoadedUntilThatIsFinished) {
  const auto tree = MakeFatTree({.ports = 8, .radix = 4});  // 4 leaves of 2 ports and 2 cables up
  Router router(*tree, {.policy = RoutingPolicy::kAdaptive, .most_paths = 1});
  std::vector<Path> first, second, third;
  std::set<int> ups;
  for (uint64_t flow = 0; flow < 50; ++flow) {
    router.Choose({0, 4}, flow, 1e9, first);
    router.Choose({1, 6}, flow, 1e9, second);  // the other cable of the leaf, unless both draws were the same one
    const bool other = first[0].links[1] != second[0].links[1];
    router.Finished(first, 1e9);
    router.Choose({1, 7}, flow, 1e9, third);  // as from the beginning, but for the second's cable
    if (other) ups.insert(first[0].links[1]);
    router.Finished(second, 1e9);
    router.Finished(third, 1e9);
  }
  EXPECT_EQ(ups.size(), 2u);
  // What was told to be finished weighs nothing: a router that has seen much chooses as a new one does.
  Router fresh(*tree, {.policy = RoutingPolicy::kAdaptive, .most_paths = 1});
  for (uint64_t flow = 100; flow < 200; ++flow) {
    router.Choose({0, 4}, flow, 1e9, first);
    fresh.Choose({0, 4}, flow, 1e9, second);
    EXPECT_EQ(first[0].links, second[0].links);
    router.Finished(first, 1e9), fresh.Finished(second, 1e9);
  }
}

// The dragonfly's worst case (dragonfly.h): port k of group i sends to port k of group i + 1.
class WorstCase {
 public:
  WorstCase(const DragonflyOptions& o, int most_paths) : o_(o), t_(MakeDragonfly(o)), most_paths_(most_paths) {}

  // The least share of a port's rate that a flow gets where the busiest link takes all as long as it needs.
  double Rate(RoutingPolicy policy, bool together = true) {
    Router router(*t_, {.policy = policy, .seed = 5, .most_paths = most_paths_});
    const int n = t_->endpoints(), group = o_.p * o_.a;
    std::vector<Request> flows;
    for (int p = 0; p < n; ++p) flows.push_back({{p, (p + group) % n}, 0, 25e9});
    std::vector<std::vector<Path>> paths(flows.size());
    if (together) router.Choose(flows, paths);
    for (size_t i = 0; i < flows.size() && !together; ++i) router.Choose(flows[i].pair, 0, 25e9, paths[i]);
    Loads loads(*t_);
    for (const std::vector<Path>& of : paths) loads.Add(of, 25e9);
    return 1 / loads.Most();
  }

  // All by detours, evenly over them.
  double Valiant() {
    Loads loads(*t_);
    const int n = t_->endpoints(), group = o_.p * o_.a;
    for (int p = 0; p < n; ++p) {
      const Pair pair{p, (p + group) % n};
      std::vector<Path> paths(static_cast<size_t>(t_->Detours(pair)));
      for (size_t i = 0; i < paths.size(); ++i) {
        t_->Route(pair, t_->MinimalRoutes(pair) + static_cast<int64_t>(i), paths[i].links);
        paths[i].share = 1.0 / static_cast<double>(paths.size());
      }
      loads.Add(paths, 25e9);
    }
    return 1 / loads.Most();
  }

 private:
  const DragonflyOptions o_;
  const std::unique_ptr<Topology> t_;
  const int most_paths_;
};

// What is tried is what would be chosen, and leaves no trace, whether the network is idle or not.
TEST(AdaptiveRoutingTest, TriesWhatItWouldChoose) {
  const auto fly = MakeDragonfly({.p = 2, .a = 4, .h = 2});
  std::vector<Request> first, second;
  for (int e = 0; e < fly->endpoints(); ++e) {
    first.push_back({{e, (e + 8) % fly->endpoints()}, static_cast<uint64_t>(e), 1e6});
    second.push_back({{e, (e + 9) % fly->endpoints()}, static_cast<uint64_t>(e), 3e6});
  }
  for (const int most : {1, 7, 16}) {
    Router router(*fly, {.policy = RoutingPolicy::kAdaptive, .seed = 3, .most_paths = most}),
        other(*fly, {.policy = RoutingPolicy::kAdaptive, .seed = 3, .most_paths = most});
    Paths tried;
    std::vector<std::vector<Path>> chosen;
    for (const auto* flows : {&first, &second}) {
      for (int times = 0; times < 2; ++times) {
        router.Try(*flows, most, tried);
        ASSERT_EQ(tried.flows(), flows->size());
      }
      other.Choose(*flows, chosen);
      for (size_t f = 0; f < flows->size(); ++f) {
        ASSERT_EQ(tried.of(f), static_cast<int>(chosen[f].size()));
        for (size_t p = 0; p < chosen[f].size(); ++p) {
          const auto [links, share, parts] = tried.At(f, static_cast<int>(p));
          EXPECT_THAT(chosen[f][p].links, testing::ElementsAreArray(links.begin(), links.end()));
          EXPECT_EQ(chosen[f][p].share, share);
          EXPECT_EQ(chosen[f][p].parts, parts);
        }
      }
      router.Choose(*flows, chosen);  // now it is in flight
    }
  }
}

TEST(AdaptiveRoutingTest, DragonflyWorstCase) {
  for (const DragonflyOptions& o :
       {DragonflyOptions{.p = 2, .a = 4, .h = 2}, DragonflyOptions{.p = 4, .a = 8, .h = 4}}) {
    WorstCase worst(o, 64);
    const double ap = o.p * o.a, g = o.a * o.h + 1;
    EXPECT_NEAR(worst.Rate(RoutingPolicy::kDeterministic), 1 / ap, 1e-9);
    EXPECT_NEAR(worst.Rate(RoutingPolicy::kEcmp), 1 / ap, 1e-9);
    EXPECT_NEAR(worst.Valiant(), (g - 2) / (2 * ap), 1e-9);
    const double ugal = worst.Rate(RoutingPolicy::kAdaptive);
    const auto at_ratio = [&](double r) { return (g - 2 + 2 * r) / (2 * r * ap); };
    EXPECT_LE(ugal, at_ratio(7.0 / 5));
    EXPECT_GE(ugal, at_ratio(7.0 / 3));
    EXPECT_LT(worst.Rate(RoutingPolicy::kAdaptive, false),
              0.8 * ugal);  // one flow after the other: why they choose in turn
  }
}

// Groups of one switch: 4 hops against 3 for all, so that the rate is the theory's, but for what two draws of 64 parts
// miss.
TEST(AdaptiveRoutingTest, DragonflyWorstCaseWithOneRatioOfHops) {
  for (const auto& [p, h] : {std::array{8, 8}, std::array{16, 16}, std::array{16, 8}}) {
    WorstCase worst({.p = p, .a = 1, .h = h}, 64);
    const double g = h + 1, r = 4.0 / 3, theory = (g - 2 + 2 * r) / (2 * r * p);
    const double ugal = worst.Rate(RoutingPolicy::kAdaptive);
    EXPECT_NEAR(worst.Rate(RoutingPolicy::kDeterministic), 1.0 / p, 1e-9);
    EXPECT_NEAR(ugal / theory, 1, 0.03) << p;
  }
}

}  // namespace routing_test
}  // namespace twofold
