// The time of a phase alone on the network: where its bounds meet, they are what solving all flows one by one gives.
#include "sim/phase_times.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/latency.h"
#include "sim/link_states.h"
#include "sim/sharing/fluid.h"
#include "tests/seed.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold::sim {
namespace phase_times_test {

constexpr std::array kAll = kRoutingPolicies;

std::vector<int> FirstEndpoints(int ranks) {
  std::vector<int> endpoints(static_cast<size_t>(ranks));
  std::iota(endpoints.begin(), endpoints.end(), 0);
  return endpoints;
}

// Every flow by itself, without classes and bounds.
double Solved(const Topology& topology, const RoutingOptions& routing, const Phase& phase) {
  Router router(topology, routing);
  std::vector<Request> requests;
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows[i];
    requests.push_back({{f.from, f.to, f.rail}, i, f.bytes});
  }
  std::vector<std::vector<Path>> paths;
  router.Choose(requests, paths);
  Fluid fluid(topology);
  std::vector<double> latencies;
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows[i];
    latencies.push_back(RouteLatency(topology, routing.policy, requests[i].pair, paths[i]));
    for (const Path& path : paths[i]) {
      for (int part = 0; part < path.parts; ++part)
        fluid.Add(path.links, f.bytes * path.share / path.parts, f.rate * path.share / path.parts);
    }
  }
  const std::vector<double>& ends = fluid.Solve();
  return PhaseLatency(phase, latencies, topology.alpha().value()) + *std::max_element(ends.begin(), ends.end());
}

struct Held {
  int exact = 0, solved = 0;
};

// Bound and Solve against the full solution.
void Hold(const Topology& topology, const RoutingOptions& routing, const Phase& phase, Held& held) {
  Router router(topology, routing);
  PhaseTimes times(topology, router);
  const std::vector<int> endpoints = FirstEndpoints(topology.endpoints());
  const PhaseTimes::Part part{phase, endpoints};
  const double solved = Solved(topology, routing, phase);
  PhaseTimes::Time time = times.Bound({&part, 1});
  if (time.exact) {
    ++held.exact;
    EXPECT_NEAR(time.seconds / solved, 1, 1e-11);
    EXPECT_TRUE(time.together);
  } else {
    ++held.solved;
    EXPECT_LE(time.seconds, solved * (1 + 1e-11));
  }
  times.Solve({&part, 1}, time);
  EXPECT_TRUE(time.exact);
  EXPECT_NEAR(time.seconds / solved, 1, 1e-11);
}

Phase Drawn(std::mt19937& random, int ranks, int flows, const std::vector<double>& sizes, double limit) {
  Phase phase;
  while (static_cast<int>(phase.flows.size()) < flows) {
    const int from = static_cast<int>(random() % static_cast<unsigned>(ranks)),
              to = static_cast<int>(random() % static_cast<unsigned>(ranks));
    if (from == to) continue;
    Flow& f = phase.flows.emplace_back(Flow{from, to, sizes[random() % sizes.size()]});
    if (limit > 0 && random() % 2 == 0) f.rate = limit;
  }
  return phase;
}

// On each kind of network, with each policy: flows of equal bytes have to be solved only where packets are sprayed.
TEST(PhaseTimes, AreThoseOfTheFullSolution) {
  std::mt19937 random(TestSeed());
  Held equal, mixed;
  for (const char* name : {"dgx-a100", "frontier", "polaris", "hammingmesh-1k", "tpu-v4-pod", "summit", "star-h100"}) {
    const cluster::Cluster cluster = *FindCluster(name);
    const int each = *DevicesPerNode(cluster);
    const auto topology = *BuildTopology(cluster, each == 1 && MostNodes(cluster) < 2000 ? 1024
                                                  : each == 1                            ? 4096
                                                                                         : 48);
    for (const RoutingPolicy policy : kAll) {
      SCOPED_TRACE(StrCat(name, ", ", RoutingName(policy)));
      const RoutingOptions routing = {.policy = policy, .seed = random()};
      for (const int flows : {1, 7, 60, 400}) {
        const Phase same = Drawn(random, topology->endpoints(), flows, {3e6}, flows == 60 ? 5e9 : 0);
        const int solved = equal.solved;
        Hold(*topology, routing, same, equal);
        if (policy != RoutingPolicy::kSpray && policy != RoutingPolicy::kValiant) {
          EXPECT_EQ(equal.solved, solved);
        }
        Hold(*topology, routing, Drawn(random, topology->endpoints(), flows, {1e6, 3e6, 4e6}, 0), mixed);
      }
    }
  }
  EXPECT_GT(equal.exact, 60);
  EXPECT_GT(mixed.exact, 10);
  EXPECT_GT(mixed.solved, 20);
}

// The same flows, given by kind.
Phase ByKind(const Phase& phase) {
  std::vector<FlowPattern::Ends> ends;
  std::vector<Flow> kinds;
  for (const Flow& f : phase.flows) {
    const auto alike = [&f](const Flow& k) { return k.bytes == f.bytes && k.rate == f.rate && k.rail == f.rail; };
    auto known = std::find_if(kinds.begin(), kinds.end(), alike);
    if (known == kinds.end()) known = kinds.insert(known, f);
    ends.push_back({f.from, f.to, static_cast<int>(known - kinds.begin())});
  }
  Phase same = phase;
  same.flows = FlowList(std::make_shared<const FlowPattern>(std::move(ends)), std::move(kinds));
  return same;
}

// Flows of few sizes are counted by states of links, others link by link.
TEST(PhaseTimes, ByKindAreThoseOfFlowsOneByOne) {
  std::mt19937 random(TestSeed());
  const auto topology = *BuildTopology(*FindCluster("dgx-h100"), 12);
  const std::vector<int> endpoints = FirstEndpoints(topology->endpoints());
  const std::vector<double> few = {1e6, 3e6, 4e6}, many = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ASSERT_GT(many.size(), LinkStates::kMostSizes);
  for (const RoutingPolicy policy : kAll) {
    for (const std::vector<double>& sizes : {few, many}) {
      for (const int flows : {1, 40, 700}) {
        SCOPED_TRACE(StrCat(RoutingName(policy), ", ", sizes.size(), " sizes, ", flows, " flows"));
        const Phase listed = Drawn(random, topology->endpoints(), flows, sizes, 0), by_kind = ByKind(listed);
        Router router(*topology, {.policy = policy, .seed = 3});
        PhaseTimes times(*topology, router);
        const PhaseTimes::Part parts[] = {{listed, endpoints}, {by_kind, endpoints}};
        const PhaseTimes::Time want = times.Bound({&parts[0], 1}), got = times.Bound({&parts[1], 1});
        EXPECT_EQ(got.exact, want.exact);
        EXPECT_EQ(got.latency, want.latency);
        EXPECT_NEAR(got.seconds / want.seconds, 1, 1e-12);
      }
    }
  }
}

// What the flows take of a link's bandwidth at most, if every one has its rate.
double MostOf(const Topology& topology, const Phase& phase) {
  std::map<int, double> taken;  // by link
  std::vector<int> route;
  for (const Flow& f : phase.flows) {
    topology.Route({f.from, f.to}, topology.DefaultRoute({f.from, f.to}), route);
    for (const int link : route) taken[link] += f.bytes > 0 ? f.rate / topology.RatesOf(link).bandwidth.value() : 0;
  }
  double most = 0;
  for (const auto& [link, share] : taken) most = std::max(most, share);
  return most;
}

// What is known of flows serves other sizes of their kinds, unless kinds of one size come to have several, or none.
TEST(PhaseTimes, OfOtherSizesAreThoseOfANewCount) {
  std::mt19937 random(TestSeed());
  const auto topology = *BuildTopology(*FindCluster("dgx-h100"), 12);
  const std::vector<int> endpoints = FirstEndpoints(topology->endpoints());
  const Phase phase = ByKind(Drawn(random, topology->endpoints(), 300, {1e6, 2e6, 3e6}, 4e9));
  ASSERT_EQ(phase.flows.kinds().size(), 6u);
  using Sizes = std::vector<double>;
  const std::vector<Sizes> all = {{1, 1, 2, 2, 3, 3}, {3, 3, 1, 1, 7, 7}, {5, 5, 5, 5, 5, 5}, {1, 2, 3, 4, 5, 6},
                                  {1, 1, 2, 2, 0, 0}, {4, 4, 0, 0, 2, 2}, {1, 1, 9, 9, 9, 9}, {1, 1, 0, 0, 0, 0},
                                  {2, 2, 2, 1, 1, 1}, {2, 2, 2, 0, 0, 0}};
  for (const RoutingPolicy policy : {RoutingPolicy::kDeterministic, RoutingPolicy::kEcmp, RoutingPolicy::kSpray}) {
    Router router(*topology, {.policy = policy, .seed = 3});
    PhaseTimes times(*topology, router);
    for (const Sizes& sizes : all) {
      std::vector<Flow> kinds = phase.flows.kinds();
      for (size_t k = 0; k < kinds.size(); ++k)
        kinds[k].bytes = 1e6 * sizes[k], kinds[k].rate = 1e11 * static_cast<double>(8 - k);
      Phase other = phase;
      other.flows = FlowList(phase.flows.pattern(), kinds);
      const PhaseTimes::Part part{other, endpoints};
      PhaseTimes anew(*topology, router);
      const PhaseTimes::Time want = anew.Bound({&part, 1}), got = times.Bound({&part, 1});
      EXPECT_EQ(got.exact, want.exact);
      EXPECT_NEAR(got.seconds / want.seconds, 1, 1e-12);
      EXPECT_NEAR(got.most / want.most, 1, 1e-12);
      if (policy != RoutingPolicy::kDeterministic) continue;
      const double most = MostOf(*topology, other);  // kinds of one size have different rates, the highest counts
      EXPECT_GE(got.most, most * (1 - 1e-12));
      EXPECT_LE(got.most, 2.7 * most);
    }
  }
}

// Of all pairs of ranks: the same as of the flows one by one, with the same paths where these depend on loads.
TEST(PhaseTimes, OfAllPairsAreThoseOfFlowsOneByOne) {
  for (const char* name : {"dgx-a100", "dgx-h100-16k", "alps", "summit"}) {
    const cluster::Cluster cluster = *FindCluster(name);
    const auto topology = *BuildTopology(cluster, 24);
    const int each = *DevicesPerNode(cluster);
    const std::vector<int> endpoints = FirstEndpoints(24 * each);
    std::vector<std::vector<int>> nodes(24);
    for (const int e : endpoints) nodes[static_cast<size_t>(e / each)].push_back(e);
    const auto teams = std::make_shared<const std::vector<std::vector<int>>>(std::move(nodes));
    for (const bool within : {true, false}) {
      PairFlows flows{.teams = teams, .within = within, .first = 2, .step = 3, .kind_within = 0, .kind_between = 1};
      std::vector<Flow> kinds = {{0, 0, 2e6}, {0, 0, 3e6}};
      if (!within) flows.kind_between = 0, kinds.erase(kinds.begin());
      Phase pairs{.rounds = 0, .flows = {}}, listed = pairs;
      pairs.flows = FlowList(std::make_shared<const FlowPattern>(std::make_shared<const PairFlows>(flows)), kinds);
      pairs.flows.ForEach([&](const Flow& f) { listed.flows.push_back(f); });
      for (const RoutingPolicy policy : kAll) {
        SCOPED_TRACE(StrCat(name, ", ", RoutingName(policy), ", ", within));
        Router router(*topology, {.policy = policy, .seed = 5});
        PhaseTimes times(*topology, router);
        const PhaseTimes::Part part{pairs, endpoints}, one_by_one{listed, endpoints};
        const PhaseTimes::Time want = times.Bound({&one_by_one, 1}), got = times.Bound({&part, 1}),
                               again = times.Bound({&part, 1});
        EXPECT_FALSE(pairs.flows.pattern()->listed());
        EXPECT_EQ(got.exact, want.exact);
        EXPECT_NEAR(got.seconds / want.seconds, 1, 1e-12);
        EXPECT_EQ(got.latency, want.latency);
        EXPECT_EQ(again.seconds, got.seconds);
        ASSERT_EQ(got.paths == nullptr, want.paths == nullptr);
        if (got.paths == nullptr) continue;
        EXPECT_NE(got.paths, want.paths) << "somebody has those still";
        ASSERT_EQ(got.paths->links(), want.paths->links());
        for (size_t f = 0; f < want.paths->flows(); ++f) {
          ASSERT_EQ(got.paths->of(f), want.paths->of(f));
          for (int p = 0; p < want.paths->of(f); ++p) {
            const Paths::View a = got.paths->At(f, p), b = want.paths->At(f, p);
            ASSERT_TRUE(std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end()));
            ASSERT_EQ(a.share, b.share);
          }
        }
      }
    }
  }
}

// Paths that somebody still needs are not overwritten by those of the next phase.
TEST(PhaseTimes, KeepThePathsOfAPhaseThatIsSolvedLater) {
  std::mt19937 random(TestSeed());
  const auto topology = *BuildTopology(*FindCluster("polaris"), 48);
  const std::vector<int> endpoints = FirstEndpoints(topology->endpoints());
  const std::vector<double> sizes = {1e6, 3e6, 4e6};
  const Phase phase = Drawn(random, 192, 400, sizes, 0), next = Drawn(random, 192, 300, sizes, 0);
  Router router(*topology, {.policy = RoutingPolicy::kAdaptive});
  const PhaseTimes::Part part{phase, endpoints}, next_part{next, endpoints};
  PhaseTimes alone(*topology, router), times(*topology, router);
  PhaseTimes::Time want = alone.Bound({&part, 1}), got = times.Bound({&part, 1});
  ASSERT_NE(got.paths, nullptr);
  times.Bound({&next_part, 1});
  alone.Solve({&part, 1}, want), times.Solve({&part, 1}, got);
  EXPECT_EQ(got.seconds, want.seconds);
}

// Against a count of every link, with loads that links had on their way left out.
TEST(LinkStates, AreTheDifferentLoadsOfLinks) {
  std::mt19937 random(TestSeed());
  const auto topology = *BuildTopology(*FindCluster("dgx-h100"), 2);
  const std::vector<double> sizes = {1, 10, 100};
  LinkStates states(*topology);
  for (int round = 0; round < 3; ++round) {
    states.Start(sizes);
    std::map<int, std::vector<double>> crossed;  // by link: bytes
    for (int f = 0; f < 60; ++f) {
      const double bytes = sizes[random() % (round == 0 ? 1 : 3)];
      std::vector<int> links;
      for (size_t l = random() % 4; l < 4; ++l) links.push_back(static_cast<int>(random() % (round == 2 ? 90 : 9)));
      for (const int link : links) crossed[link].push_back(bytes);
      states.Cross(links, bytes);
    }
    using Load = std::tuple<double, double, double, double, int64_t>;
    std::set<Load> want;
    for (const auto& [link, bytes] : crossed) {
      const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
      want.emplace(topology->RatesOf(link).bandwidth.value(), std::accumulate(bytes.begin(), bytes.end(), 0.0), *most,
                   *least, static_cast<int64_t>(bytes.size()));
    }
    std::vector<LinkUse> uses;
    for (const LinkStates::Load& load : states.Loads()) uses.push_back(UseOf(load, sizes));
    std::set<Load> got;
    for (const LinkUse& use : uses) got.emplace(use.bandwidth, use.bytes, use.most, use.least, use.count);
    EXPECT_EQ(got, want) << round;
    EXPECT_EQ(uses.size(), want.size()) << round;
  }
}

// 0 sends 4 to 3 and 4 to 1, each of which receives three times 1 from others at first: a quarter goes there until 4,
// the rest shares what 0 sends until 10. No link is busy all the time: 0 sends 8, the others receive 7.
TEST(PhaseTimes, CanExceedWhatEveryLinkNeeds) {
  const auto topology = *BuildTopology(*FindCluster("star-h100"), 9);
  const double b = topology->bandwidth().value();
  const Phase phase{
      .flows = {{0, 3, 4 * b}, {0, 1, 4 * b}, {2, 3, b}, {4, 3, b}, {5, 3, b}, {6, 1, b}, {7, 1, b}, {8, 1, b}}};
  Router router(*topology, {});
  PhaseTimes times(*topology, router);
  const std::vector<int> endpoints = FirstEndpoints(9);
  const PhaseTimes::Part part{phase, endpoints};
  PhaseTimes::Time time = times.Bound({&part, 1});
  EXPECT_FALSE(time.exact);
  EXPECT_NEAR(time.seconds - time.latency, 8, 1e-9);
  times.Solve({&part, 1}, time);
  EXPECT_NEAR(time.seconds - time.latency, 10, 1e-9);
}

// Groups that begin together, one of which has less to send: they do not end together.
TEST(PhaseTimes, SayWhetherGroupsEndTogether) {
  const auto topology = *BuildTopology(*FindCluster("star-h100"), 4);
  Router router(*topology, {});
  PhaseTimes times(*topology, router);
  const std::vector<int> one = {0, 1}, other = {2, 3};
  for (const double bytes : {1e6, 5e5}) {
    const Phase phases[] = {{.flows = {{0, 1, 1e6}}}, {.flows = {{0, 1, bytes}}}};
    const PhaseTimes::Part parts[] = {{phases[0], one}, {phases[1], other}};
    PhaseTimes::Time time = times.Bound(parts);
    times.Solve(parts, time);
    EXPECT_EQ(time.together, bytes == 1e6);
    EXPECT_NEAR(time.seconds, time.latency + 1e6 / topology->bandwidth().value(), 1e-12);
  }
}

// A size of 0, and a phase without flows.
TEST(PhaseTimes, OfNothingAreLatencies) {
  const auto topology = *BuildTopology(*FindCluster("dgx-a100"), 2);
  Router router(*topology, {});
  PhaseTimes times(*topology, router);
  const std::vector<int> endpoints = FirstEndpoints(16);
  for (const Phase& phase : {Phase{.flows = {{0, 9, 0}, {3, 1, 0}}}, Phase{.rounds = 3}}) {
    const PhaseTimes::Part part{phase, endpoints};
    const PhaseTimes::Time time = times.Bound({&part, 1});
    EXPECT_TRUE(time.exact);
    EXPECT_GT(time.latency, 0);
    EXPECT_EQ(time.seconds, time.latency);
  }
}

}  // namespace phase_times_test
}  // namespace twofold::sim
