// Adaptive routing on the dragonfly's worst case, and networks with something wrong.
#include <numeric>
#include <optional>
#include <random>

#include "gmock/gmock.h"
#include "sim/network.h"
#include "tests/seed.h"
#include "tests/unit/sim/flows.h"
#include "tests/unit/topologies/lanes.h"
#include "topologies/degraded.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace adaptive_test {

constexpr double B = 1e9, n = 3e9, T = n / B;  // T: a flow alone
const Wiring kWires = {.bandwidth = BytesPerSecond(B)};

double Last(const std::vector<double>& ends) { return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end()); }

// ---- Kim, Dally, Scott and Abts 2008, section 4.2: every port of group i sends to group i + 1 ----

// Ports of a group a p, one cable between every two groups.
struct Shape {
  int p, a, h;
  int g() const { return a * h + 1; }
};

// All ports send n bytes in one phase, as routing sees them together.
double WorstCase(const Shape& s, RoutingPolicy policy, uint64_t seed = 1) {
  const auto fly = MakeDragonfly({.p = s.p, .a = s.a, .h = s.h, .wiring = kWires});
  Phase phase;
  std::vector<int> all(static_cast<size_t>(fly->endpoints()));
  std::iota(all.begin(), all.end(), 0);
  for (int e : all) phase.flows.push_back({.from = e, .to = (e + s.a * s.p) % fly->endpoints(), .bytes = n});
  const std::vector<int> last(all.size());
  return Simulated(*fly, {.policy = policy, .seed = seed, .most_paths = 64},
                   {{{.phases = {phase}, .last_phase = last, .algorithm = "", .protocol = ""}, all}})[0];
}

constexpr Shape kOneSwitch = {.p = 8, .a = 1, .h = 8}, kFourSwitches = {.p = 2, .a = 4, .h = 2};  // 9 groups, 72 ports

// a p flows on the one cable between two groups: each gets 1 / (a p) of it.
TEST(AdaptiveTest, MinimalRoutingSharesOneCable) {
  for (const Shape& s : {kOneSwitch, kFourSwitches}) {
    EXPECT_NEAR(WorstCase(s, RoutingPolicy::kDeterministic), s.a * s.p * T, 1e-9 * T);
    EXPECT_NEAR(WorstCase(s, RoutingPolicy::kEcmp), s.a * s.p * T, 1e-9 * T);  // there is one minimal route
  }
}

// UGAL stops where load times hops are equal: loads in the ratio r of the hops of detours and of minimal routes. Each
// flow then has (g - 2 + 2 r) / (2 r a p) of a port's rate (derivation: topologies/networks/dragonfly.h) against 1 / (a
// p): adaptive routing is (g - 2 + 2 r) / (2 r) times as fast; a perfect balance would be g / 2 = 4.5 times. With
// groups of one switch routes have 3 and 4 links, r = 4/3: 3.625. A flow ends with the slowest of its 64 sampled parts:
// what is seen is within 3 %.
TEST(AdaptiveTest, BeatsMinimalRoutingByWhatTheorySays) {
  const double r = 4.0 / 3, g = kOneSwitch.g(), theory = (g - 2 + 2 * r) / (2 * r);
  ASSERT_NEAR(theory, 3.625, 1e-12);
  for (uint64_t seed : {1, 2, 3}) {
    const double factor =
        WorstCase(kOneSwitch, RoutingPolicy::kDeterministic) / WorstCase(kOneSwitch, RoutingPolicy::kAdaptive, seed);
    std::printf("adaptive routing is %.3f times as fast as minimal routing; theory: %.3f\n", factor, theory);
    EXPECT_NEAR(factor, theory, 0.03 * theory);
  }
}

// With local hops, which fall away where the cable is on the port's own switch, routes have 3 to 5 and 4 to 7 links: r
// lies between 7/5 and 7/3, the factor between 3.5 and 2.5.
TEST(AdaptiveTest, BeatsMinimalRoutingOverLocalLinksToo) {
  const double g = kFourSwitches.g();
  auto theory = [g](double r) { return (g - 2 + 2 * r) / (2 * r); };
  for (uint64_t seed : {1, 2, 3}) {
    const double factor = WorstCase(kFourSwitches, RoutingPolicy::kDeterministic) /
                          WorstCase(kFourSwitches, RoutingPolicy::kAdaptive, seed);
    std::printf("adaptive routing is %.3f times as fast as minimal routing; theory: %.3f to %.3f\n", factor,
                theory(7.0 / 3), theory(7.0 / 5));
    EXPECT_GT(factor, theory(7.0 / 3));
    EXPECT_LT(factor, theory(7.0 / 5) * 1.001);
  }
}

TEST(AdaptiveTest, RoutingIsTheSeeds) {
  EXPECT_EQ(WorstCase(kFourSwitches, RoutingPolicy::kAdaptive, 5),
            WorstCase(kFourSwitches, RoutingPolicy::kAdaptive, 5));
  EXPECT_NE(WorstCase(kFourSwitches, RoutingPolicy::kAdaptive, 5),
            WorstCase(kFourSwitches, RoutingPolicy::kAdaptive, 6));
}

// What is in flight counts, not what was: the second wave finds an idle network.
TEST(AdaptiveTest, FinishedFlowsLoadNothing) {
  const Lanes lanes(2, 2, BytesPerSecond(10 * B));
  const RoutingOptions adaptive = {.policy = RoutingPolicy::kAdaptive, .most_paths = 64};
  const std::vector<double> once = BySimGrid(lanes, {{0, 2, n}}, adaptive);
  EXPECT_EQ(BySimGrid(lanes, {{0, 2, n}, {0, 2, n, 100}}, adaptive)[1], 100 + once[0]);
  EXPECT_GT(BySimGrid(lanes, {{0, 2, n}, {0, 2, n, 1}}, adaptive)[1], 1 + once[0]);
}

// ---- What a flow's parts have of a link ----

// Port 0 sends as much to its neighbour, over one route, as to another group, over some of eight cables that are wide
// enough: its own cable is shared in equal halves, however many paths a flow has.
TEST(AdaptiveTest, ManyPathsGiveAFlowNoMoreOfALink) {
  const auto fly = MakeDragonfly({.p = 2,
                                  .a = 4,
                                  .h = 4,
                                  .groups = 3,
                                  .local_bandwidth = BytesPerSecond(100 * B),
                                  .global_bandwidth = BytesPerSecond(100 * B),
                                  .wiring = kWires});
  const RoutingOptions adaptive = {.policy = RoutingPolicy::kAdaptive};
  Router router(*fly, adaptive);
  std::vector<Path> paths;
  router.Choose({0, 16}, 0, n, paths);
  ASSERT_GT(paths.size(), 2u);
  for (const auto& ends :
       {BySimGrid(*fly, {{0, 1, n}, {0, 16, n}}, adaptive), ByFluid(*fly, {{0, 1, n}, {0, 16, n}}, adaptive)}) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_NEAR(ends[0], 2 * T, 1e-9 * T);
    EXPECT_NEAR(ends[1], 2 * T, 1e-9 * T);
  }
}

// Flows of any size and limit: SimGrid's shares for paths of several parts are those that the parts have one by one.
TEST(AdaptiveTest, PathsOfSeveralPartsShareAsTheirParts) {
  std::mt19937 random(TestSeed());
  const auto fly = MakeDragonfly({.p = 2, .a = 4, .h = 4, .groups = 5, .wiring = kWires});
  const auto ports = static_cast<unsigned>(fly->endpoints());
  size_t several = 0;
  for (const int most : {3, 16}) {
    std::vector<TestFlow> flows;
    for (int f = 0; f < 60; ++f) {
      const unsigned from = random() % ports, to = (from + 1 + random() % (ports - 1)) % ports;
      flows.push_back({static_cast<int>(from), static_cast<int>(to), n * (1 + random() % 1000) / 1000});
      if (f % 4 == 0) flows.back().rate = B * (1 + random() % 50) / 100;
    }
    const RoutingOptions adaptive = {.policy = RoutingPolicy::kAdaptive, .seed = random(), .most_paths = most};
    Router router(*fly, adaptive);
    for (const TestFlow& f : flows) {
      std::vector<Path> paths;
      router.Choose({f.from, f.to}, 0, f.bytes, paths);
      const auto parts = [](int sum, const Path& path) { return sum + path.parts; };
      ASSERT_EQ(std::accumulate(paths.begin(), paths.end(), 0, parts), most);
      several +=
          static_cast<size_t>(std::count_if(paths.begin(), paths.end(), [](const Path& p) { return p.parts > 1; }));
    }
    const std::vector<double> simulated = BySimGrid(*fly, flows, adaptive), computed = ByFluid(*fly, flows, adaptive);
    ASSERT_EQ(simulated.size(), flows.size());
    for (size_t f = 0; f < flows.size(); ++f) EXPECT_NEAR(simulated[f] / computed[f], 1, 1e-9) << most << " " << f;
  }
  EXPECT_GT(several, 100u);
}

// ---- A sample of phases ----

struct Timed {
  double seconds = 0;
  std::vector<std::string> notes;
};

// An all-to-all among the first ranks, in n phases of n flows.
Timed AllToAll(const Topology& topology, int ranks, size_t most_flows, RoutingPolicy policy) {
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(topology, {.routing = {.policy = policy}});
    const auto library = *MakeLibrary({});
    Network network(engine, *library, {.most_flows = most_flows});
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const int group = network.AddGroups(std::make_shared<const Network::Ranks>(Network::Ranks{all}));
    outcome::Outcome result;
    network.Collective(
        group, {Communication::kAllToAll, ranks, 1e9, 0, {}}, 0,
        [&](const std::vector<double>& finish, double) { result.add_results(absl::StrFormat("%.17g", finish[0])); });
    if (const absl::Status status = engine.Run(); !status.ok()) result.set_message(std::string(status.message()));
    for (const std::string& note : network.notes()) result.add_notes(note);
    return result;
  });
  EXPECT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
  if (!outcome.ok() || outcome->results_size() != 1) return {};
  return {std::stod(outcome->results(0)), {outcome->notes().begin(), outcome->notes().end()}};
}

// A fifth of the phases gives the time of all to within its standard error, which a note states. Other routing needs no
// sample.
TEST(AdaptiveTest, ASampleOfPhasesStandsForAllAndSaysSo) {
  const auto fly = MakeDragonfly({.p = 4, .a = 4, .h = 4, .wiring = kWires});
  constexpr int kRanks = 160;
  const Timed all = AllToAll(*fly, kRanks, kMostFlows, RoutingPolicy::kAdaptive),
              sample = AllToAll(*fly, kRanks, 1, RoutingPolicy::kAdaptive);
  EXPECT_THAT(all.notes, testing::IsEmpty());
  ASSERT_EQ(sample.notes.size(), 1u);
  EXPECT_THAT(sample.notes[0], testing::StartsWith("all_to_all among 160 ranks: 33 of its 159 phases, drawn at random, "
                                                   "were timed and stand for the others; the standard error is "));
  const double error = std::stod(sample.notes[0].substr(sample.notes[0].find("error is ") + 9)) / 100;
  EXPECT_LT(error, 0.02);
  EXPECT_NE(sample.seconds, all.seconds);
  EXPECT_NEAR(sample.seconds / all.seconds, 1, 3 * error);
  const Timed minimal = AllToAll(*fly, kRanks, 1, RoutingPolicy::kDeterministic);
  EXPECT_THAT(minimal.notes, testing::IsEmpty());
  EXPECT_EQ(minimal.seconds, AllToAll(*fly, kRanks, kMostFlows, RoutingPolicy::kDeterministic).seconds);
}

// ---- Degraded networks ----

std::unique_ptr<Topology> With(std::unique_ptr<Topology> topology, const Degradation& degradation) {
  absl::StatusOr<Degraded> degraded = MakeDegraded(std::move(topology), degradation);
  EXPECT_TRUE(degraded.ok()) << degraded.status();
  return std::move(degraded->topology);
}

TEST(DegradedNetworkTest, TimeGrowsAsOneOverTheShareThatIsLeft) {
  for (double share : {1.0, 0.5, 0.1, 0.01}) {
    const auto star = With(MakeStar({.hosts = 4, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)}),
                           {.faults = {{.link = "h1.down", .bandwidth = share}}});
    for (const auto& ends :
         {BySimGrid(*star, {{0, 1, n}, {1, 0, n}, {2, 3, n}}), ByFluid(*star, {{0, 1, n}, {1, 0, n}, {2, 3, n}})}) {
      ASSERT_EQ(ends.size(), 3u);
      EXPECT_NEAR(ends[0], T / share, 1e-9 * T / share);
      EXPECT_NEAR(ends[1], T / share, 1e-9 * T / share);  // the cable, both ways
      EXPECT_NEAR(ends[2], T, 1e-9 * T);
    }
  }
}

TEST(DegradedNetworkTest, OthersTrafficLeavesTheRest) {
  const auto star =
      With(MakeStar({.hosts = 4, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)}), {.background = 0.2});
  EXPECT_NEAR(BySimGrid(*star, {{0, 1, n}})[0], T / 0.8, 1e-9);
  EXPECT_NEAR(BySimGrid(*star, {{0, 1, n}, {0, 2, n}})[1], 2 * T / 0.8, 1e-9);
}

// A leaf's S uplinks carry what its S ports send, sprayed evenly. With f of them cut the S ports share S - f: S / (S -
// f) times as long. Other leaves do not notice.
TEST(DegradedNetworkTest, AFatTreeGoesOnOverOtherSpines) {
  constexpr int S = 4;
  const FatTreeOptions shape = {.ports = 2 * S * S, .radix = 2 * S, .wiring = kWires};  // full: one cable to each spine
  std::vector<TestFlow> flows, others;
  for (int e = 0; e < S; ++e) flows.push_back({e, S + e, n}), others.push_back({2 * S + e, 3 * S + e, n});
  const RoutingOptions spray = {.policy = RoutingPolicy::kSpray};
  const auto whole = MakeFatTree(shape);
  EXPECT_NEAR(Last(BySimGrid(*whole, flows, spray)), T, 1e-9);
  // Uplinks of leaf 0, by the routes of its first port.
  std::vector<std::string> uplinks;
  for (int64_t spine = 0; spine < S; ++spine) {
    std::vector<int> route;
    whole->Route({0, S}, spine, route);
    uplinks.push_back(whole->links()[static_cast<size_t>(route[1])].name);
  }
  Degradation cut;
  for (int f = 1; f < S; ++f) {
    cut.faults.push_back({.link = uplinks[static_cast<size_t>(f)], .failed = true});
    const auto tree = With(MakeFatTree(shape), cut);
    const double expected = T * S / (S - f);
    EXPECT_NEAR(Last(BySimGrid(*tree, flows, spray)), expected, 1e-9 * expected) << f;
    EXPECT_NEAR(Last(ByFluid(*tree, flows, spray)), expected, 1e-9 * expected) << f;
    EXPECT_NEAR(Last(BySimGrid(*tree, others, spray)), T, 1e-9) << f;
    EXPECT_LE(Last(BySimGrid(*tree, flows)), S * T * (1 + 1e-9)) << f;  // deterministic: at worst all on one
  }
}

// Without its cable a group reaches the next through any other: two global cables.
TEST(DegradedNetworkTest, ADragonflyGoesAroundACutCable) {
  const DragonflyOptions shape = {.p = 2, .a = 4, .h = 2, .wiring = kWires};
  const auto whole = MakeDragonfly(shape);
  std::vector<int> route;
  whole->Route({0, 8}, whole->DefaultRoute({0, 8}), route);
  auto global = [&](const Topology& t) {
    return std::count_if(route.begin(), route.end(), [&](int l) {
      const Link& link = t.links()[static_cast<size_t>(l)];
      return t.vertices()[static_cast<size_t>(link.from)].group != t.vertices()[static_cast<size_t>(link.to)].group;
    });
  };
  ASSERT_EQ(global(*whole), 1);
  std::string cable;
  for (int l : route) {
    const Link& link = whole->links()[static_cast<size_t>(l)];
    if (whole->vertices()[static_cast<size_t>(link.from)].group !=
        whole->vertices()[static_cast<size_t>(link.to)].group)
      cable = link.name;
  }
  const auto fly = With(MakeDragonfly(shape), {.faults = {{.link = cable, .failed = true}}});
  fly->Route({0, 8}, fly->DefaultRoute({0, 8}), route);
  EXPECT_EQ(global(*fly), 2);
  EXPECT_NEAR(BySimGrid(*fly, {{0, 8, n}})[0], T, 1e-9);
}

TEST(DegradedNetworkTest, ARunEndsWhereNoRouteIsLeft) {
  const auto star = With(MakeStar({.hosts = 3}), {.faults = {{.link = "h1.up", .failed = true}}});
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(*star, {});
    engine.Transfer(std::make_shared<Schedule>(Alone({0, 1, n}).schedule), {0, 1}, 0,
                    [](const std::vector<double>&) {});
    outcome::Outcome result;
    result.set_message(std::string(engine.Run().message()));
    return result;
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->message(),
              testing::HasSubstr("every route from h0 to h1 (endpoints 0 and 1) crosses a failed link"));
}

// In order of rank: the worst of a ring's latencies is that of each of its steps.
TEST(DegradedNetworkTest, JitterIsInTheTimeOfCollectives) {
  auto seconds = [](std::optional<uint64_t> seed) {
    Degradation jitter;
    if (seed) jitter = {.jitter = 0.3, .seed = *seed};
    const auto star = With(MakeStar({.hosts = 8, .bandwidth = BytesPerSecond(B), .latency = Seconds(1)}), jitter);
    std::vector<TestTransfer> ring(1);
    Phase phase = {.rounds = 14, .flows = {}};
    for (int r = 0; r < 8; ++r) phase.flows.push_back({r, (r + 1) % 8, n}), ring[0].endpoints.push_back(r);
    ring[0].schedule = {.phases = {phase}, .last_phase = std::vector<int>(8), .algorithm = "", .protocol = ""};
    double worst = 0;
    for (int r = 0; r < 8; ++r) worst = std::max(worst, star->Latency({r, (r + 1) % 8}).value());
    const double simulated = Simulated(*star, {}, ring)[0];
    EXPECT_NEAR(simulated, 14 * worst + T, 1e-9 * simulated);
    return simulated;
  };
  EXPECT_NEAR(seconds(std::nullopt), 14 + T, 1e-9);
  EXPECT_EQ(seconds(1), seconds(1));
  EXPECT_NE(seconds(1), seconds(2));
  EXPECT_GT(seconds(1), 14 + T);
}

}  // namespace adaptive_test
}  // namespace twofold::sim
