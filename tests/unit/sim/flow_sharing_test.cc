// Flows that compete get their max-min shares, on the links of each kind of network, by SimGrid and by the solver for
// flows that begin together; rates, several paths and latencies are as schedules say.
//
// B: bandwidth of a port (or NVLink bundle); all flows are of n bytes, so that alone each takes n/B. Latencies are zero
// unless said.
#include <numeric>
#include <set>

#include "gmock/gmock.h"
#include "tests/unit/sim/flows.h"
#include "tests/unit/topologies/lanes.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/star.h"
#include "topologies/networks/torus.h"
#include "topologies/nodes/nvswitch.h"

namespace twofold::sim {
namespace flow_sharing_test {

constexpr double B = 1e9, n = 3e9, T = n / B;  // T: a flow alone
const Wiring kWires = {.bandwidth = BytesPerSecond(B)};

void ExpectEnds(const std::vector<double>& ends, const std::vector<double>& expected, const char* who) {
  ASSERT_EQ(ends.size(), expected.size()) << who;
  for (size_t i = 0; i < ends.size(); ++i)
    EXPECT_NEAR(ends[i], expected[i], 1e-9 * expected[i]) << who << ", flow " << i;
}

// Both ways of computing, of flows that all begin at 0.
void ExpectBoth(const Topology& topology, const std::vector<TestFlow>& flows, const std::vector<double>& expected,
                const RoutingOptions& routing = {}) {
  ExpectEnds(BySimGrid(topology, flows, routing), expected, "SimGrid");
  ExpectEnds(ByFluid(topology, flows, routing), expected, "solver");
}

// The medium-independent part: which links two or more of these flows take by default.
std::set<std::string> Shared(const Topology& topology, const std::vector<TestFlow>& flows) {
  std::vector<int> loads(topology.links().size()), route;
  for (const TestFlow& f : flows) {
    topology.Route({f.from, f.to}, topology.DefaultRoute({f.from, f.to}), route);
    for (int link : route) ++loads[static_cast<size_t>(link)];
  }
  std::set<std::string> names;
  for (size_t i = 0; i < loads.size(); ++i) {
    if (loads[i] > 1) names.insert(topology.links()[i].name);
  }
  return names;
}

// ---- NVSwitch: a device's own links, out and in ----

TEST(FlowSharingTest, NvSwitchLinks) {
  const auto node = MakeClusterTopology(
      MakeNvSwitchNode({.devices = 8, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)}), 1, nullptr);
  ExpectBoth(*node, {{0, 1, n}, {0, 2, n}}, {2 * T, 2 * T});  // out of 0
  ExpectBoth(*node, {{0, 2, n}, {1, 2, n}}, {2 * T, 2 * T});  // into 2
  ExpectBoth(*node, {{0, 1, n}, {1, 0, n}}, {T, T});          // full duplex
  ExpectBoth(*node, {{0, 1, n}, {0, 2, n}, {0, 3, n}}, {3 * T, 3 * T, 3 * T});
  // 0 sends three flows of B/3; 4 -> 3 takes what is left into 3, 2B/3: it ends at 3T/2, and then nothing is freed: 0's
  // way out is full all along.
  ExpectBoth(*node, {{0, 1, n}, {0, 2, n}, {0, 3, n}, {4, 3, n}}, {3 * T, 3 * T, 3 * T, 1.5 * T});
  // A chain: 0->1 and 0->2 share 0's way out, 0->2 and 3->2 share 2's way in: all B/2. Of 3->2's n/2, they end together
  // but it: at T, then the others go on as before: 0->1 and 0->2 until 2T.
  ExpectBoth(*node, {{0, 1, n}, {0, 2, n}, {3, 2, n / 2}}, {2 * T, 2 * T, T});
}

TEST(FlowSharingTest, FlowsThatEndLeaveTheirShare) {
  const auto node = MakeClusterTopology(
      MakeNvSwitchNode({.devices = 4, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)}), 1, nullptr);
  // Thirds until the first ends at 3 (n/3)/B = T; halves until the second, (2n/3 - n/3) / (B/2) later; then all.
  ExpectBoth(*node, {{0, 1, n / 3}, {0, 2, 2 * n / 3}, {0, 3, n}}, {T, T + 2 * T / 3, T + 2 * T / 3 + T / 3});
  // Those that come later: alone for T/2, then halves.
  ExpectEnds(BySimGrid(*node, {{0, 1, n}, {0, 2, n, T / 2}}), {1.5 * T, 2 * T}, "SimGrid");
  ExpectEnds(BySimGrid(*node, {{0, 1, n}, {0, 2, n, T / 2}, {0, 3, n, T / 2}}), {2 * T, 3 * T - T / 4 + T / 4, 3 * T},
             "SimGrid");
}

// ---- Fat tree: uplinks of a leaf ----

TEST(FlowSharingTest, FatTreeUplinks) {
  // Leaves of 4 ports and 2 uplinks; d-mod-k: by the parity of the destination.
  const auto tree = MakeFatTree({.ports = 12, .radix = 6, .oversubscription = 2, .wiring = kWires});
  const std::vector<TestFlow> two = {{0, 4, n}, {1, 6, n}}, three = {{0, 4, n}, {1, 6, n}, {2, 8, n}};
  ASSERT_EQ(Shared(*tree, two).size(), 2u);    // up from the leaf, down to the other
  ASSERT_EQ(Shared(*tree, three).size(), 2u);  // the third goes to another leaf
  ExpectBoth(*tree, two, {2 * T, 2 * T});
  ExpectBoth(*tree, three, {3 * T, 3 * T, 3 * T});
  ExpectBoth(*tree, {{0, 4, n}, {1, 5, n}}, {T, T});  // different uplinks
  // The uplink gives three flows B/3 each; 3 -> 7 leaves by the other; 5 -> 4 shares the way into 4: 2B/3.
  ExpectBoth(*tree, {{0, 4, n}, {1, 6, n}, {2, 8, n}, {3, 7, n}, {5, 4, n}}, {3 * T, 3 * T, 3 * T, T, 1.5 * T});
  // All ports of a leaf, spread evenly: 4 flows on 2 uplinks.
  ExpectBoth(*tree, {{0, 4, n}, {1, 5, n}, {2, 6, n}, {3, 7, n}}, {2 * T, 2 * T, 2 * T, 2 * T});
}

TEST(FlowSharingTest, FatTreeTopLinks) {
  // Three levels of radix 4: pods of 4 ports; across pods 0 -> 4, 1 -> 6 by the same middle switch and core.
  const auto tree = MakeFatTree({.ports = 16, .levels = 3, .radix = 4, .wiring = kWires});
  const std::vector<TestFlow> two = {{0, 4, n}, {2, 4 + 8, n}};
  ExpectBoth(*tree, two, Shared(*tree, two).empty() ? std::vector{T, T} : std::vector{2 * T, 2 * T});
  // A whole pod to the next, to each port its own: nothing limits (d-mod-k is free of contention for shifts).
  ExpectBoth(*tree, {{0, 4, n}, {1, 5, n}, {2, 6, n}, {3, 7, n}}, {T, T, T, T});
}

// ---- Dragonfly: the one cable between two groups ----

TEST(FlowSharingTest, DragonflyGlobalLinks) {
  const DragonflyOptions shape = {.p = 2, .a = 4, .h = 2, .wiring = kWires};
  const auto fly = MakeDragonfly(shape);  // port (group i, switch s, k) is 8 i + 2 s + k
  const std::vector<TestFlow> two = {{0, 8, n}, {2, 10, n}}, three = {{0, 8, n}, {2, 10, n}, {4, 12, n}};
  ExpectBoth(*fly, two, {2 * T, 2 * T});
  ExpectBoth(*fly, three, {3 * T, 3 * T, 3 * T});
  ExpectBoth(*fly, {{0, 8, n}, {2, 16, n}}, {T, T});  // to different groups
  // 0's other flow, to its own switch's neighbour, takes what is left of its port: 2B/3.
  ExpectBoth(*fly, {{0, 8, n}, {2, 10, n}, {4, 12, n}, {0, 1, n}}, {3 * T, 3 * T, 3 * T, 1.5 * T});
  // The way back is another link.
  ExpectBoth(*fly, {{0, 8, n}, {8, 0, n}}, {T, T});
}

TEST(FlowSharingTest, DragonflyGlobalLinksOfTheirOwnWidth) {
  const auto fly = MakeDragonfly({.p = 2, .a = 4, .h = 2, .global_bandwidth = BytesPerSecond(B / 2), .wiring = kWires});
  ExpectBoth(*fly, {{0, 8, n}}, {2 * T});
  ExpectBoth(*fly, {{0, 8, n}, {2, 10, n}}, {4 * T, 4 * T});
  ExpectBoth(*fly, {{0, 8, n}, {2, 10, n}, {4, 12, n}}, {6 * T, 6 * T, 6 * T});
}

// ---- Torus: the links of a dimension ----

TEST(FlowSharingTest, TorusDimensions) {
  const auto ring = MakeTorus({.dims = {8}, .wiring = kWires});
  ExpectBoth(*ring, {{0, 2, n}, {1, 3, n}}, {2 * T, 2 * T});                    // on 1 -> 2
  ExpectBoth(*ring, {{0, 3, n}, {1, 3, n}, {2, 3, n}}, {3 * T, 3 * T, 3 * T});  // on 2 -> 3
  ExpectBoth(*ring, {{0, 2, n}, {2, 0, n}}, {T, T});                            // one way each
  // The parking lot: 0 -> 3 shares each of its links with one other: all B/2; the others go on alone when... none ends
  // first.
  ExpectBoth(*ring, {{0, 3, n}, {0, 1, n}, {1, 2, n}, {2, 3, n}}, {2 * T, 2 * T, 2 * T, 2 * T});
  // Two on 0 -> 1 and three on 1 -> 2: thirds there; 0 -> 1 alone with one of them takes 2B/3.
  ExpectBoth(*ring, {{0, 2, n}, {1, 2, n}, {1, 3, n}, {0, 1, n}}, {3 * T, 3 * T, 3 * T, 1.5 * T});
}

TEST(FlowSharingTest, TorusDimensionOrder) {
  // Port x + 4 y. First along x, then along y: both turn at (1, 0) and share the link to (1, 1).
  const auto torus = MakeTorus({.dims = {4, 4}, .wiring = kWires});
  ExpectBoth(*torus, {{0, 5, n}, {1, 5, n}}, {2 * T, 2 * T});
  ExpectBoth(*torus, {{0, 5, n}, {4, 5, n}}, {T, T});                            // the other comes along x
  ExpectBoth(*torus, {{0, 5, n}, {1, 5, n}, {2, 5, n}}, {3 * T, 3 * T, 3 * T});  // from both sides of the turn
  const auto cube = MakeTorus({.dims = {4, 4, 4}, .wiring = kWires});
  ExpectBoth(*cube, {{0, 16 + 5, n}, {1, 16 + 5, n}, {5, 16 + 5, n}},
             {3 * T, 3 * T, 3 * T});  // on the last link, along z
}

// ---- What a flow may say of itself ----

// Flows of one pair that several actors start at the same moment each take their own path: lanes of B, 2B, ..., 5B.
TEST(FlowSharingTest, EachFlowOfAPairTakesItsOwnPath) {
  Lanes lanes(2, 5, BytesPerSecond(100 * B));
  for (int l = 0; l < 5; ++l) lanes.SetLane(l, BytesPerSecond((l + 1) * B));
  std::vector<TestFlow> flows;
  std::vector<double> expected;
  for (int round = 0; round < 3; ++round) {
    for (int l : {3, 0, 4, 1, 2}) {
      flows.push_back({round == 2 ? 1 : 0, 2, n, 0, l});
      expected.push_back(3 + 3 * T / (l + 1));  // three a lane; three links of 1 s
    }
  }
  ExpectEnds(BySimGrid(lanes, flows), expected, "SimGrid");
  // At different times, two to a lane at the end: actors that start later do not disturb what was chosen before.
  const std::vector<TestFlow> staggered = {
      {0, 2, n, 0, 4}, {0, 2, n, 0, 0}, {0, 2, n, T / 10, 1}, {0, 2, n, T / 10, 3}};
  ExpectEnds(BySimGrid(lanes, staggered), {3 + T / 5, 3 + T, 3 + T / 10 + T / 2, 3 + T / 10 + T / 4}, "SimGrid");
}

TEST(FlowSharingTest, OneFlowOverSeveralPaths) {
  Lanes lanes(2, 4, BytesPerSecond(4 * B));
  const RoutingOptions spray = {.policy = RoutingPolicy::kSpray};
  ExpectBoth(lanes, {{0, 2, n}}, {3 + T / 4}, spray);  // all four lanes
  ExpectBoth(lanes, {{0, 2, n}, {1, 3, n}}, {3 + T / 2, 3 + T / 2}, spray);
  ExpectBoth(lanes, {{0, 2, n}}, {3 + T / 2}, {.policy = RoutingPolicy::kSpray, .most_paths = 2});
  ExpectBoth(lanes, {{0, 2, n, 0, -1, B / 2}}, {3 + 2 * T}, spray);  // its rate is that of all its paths together
  // A path that is slower than the others ends the flow: a quarter of the bytes at B/2.
  lanes.SetLane(1, BytesPerSecond(B / 2));
  ExpectBoth(lanes, {{0, 2, n}}, {3 + T / 2}, spray);
}

TEST(FlowSharingTest, RatesLimitAndLeaveTheRest) {
  const auto star = MakeStar({.hosts = 4, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)});
  ExpectBoth(*star, {{0, 1, n, 0, -1, B / 4}}, {4 * T});
  ExpectBoth(*star, {{0, 1, n, 0, -1, B / 4}, {0, 2, n}}, {4 * T, T / 0.75});
  ExpectBoth(*star, {{0, 1, n, 0, -1, B / 4}, {0, 2, n}, {0, 3, n}}, {4 * T, 2 * T / 0.75, 2 * T / 0.75});
  ExpectBoth(*star, {{0, 1, n, 0, -1, 2 * B}}, {T});
}

// seconds + rounds * the longest latency, or along the pipeline; routes of 3 s.
TEST(FlowSharingTest, LatenciesOfPhases) {
  const Lanes lanes(2, 2);
  auto seconds = [&](Phase phase, double stretch = 1) {
    return Simulated(lanes, {},
                     {{{.phases = {std::move(phase)},
                        .last_phase = {0, 0, 0, 0},
                        .stretch = stretch,
                        .algorithm = "",
                        .protocol = ""},
                       {0, 1, 2, 3}}})[0];
  };
  EXPECT_NEAR(seconds({.rounds = 5, .flows = {{0, 2, n}}, .seconds = 0.25}), 0.25 + 5 * 3 + T, 1e-9);
  EXPECT_NEAR(
      seconds({.rounds = 2,
               .flows = {{.from = 0, .to = 2, .bytes = n, .hop_seconds = 0.5}, {.from = 1, .to = 3, .bytes = n}}}),
      2 * 3.5 + T, 1e-9);
  EXPECT_NEAR(seconds({.rounds = 9,
                       .flows = {{.from = 0, .to = 2, .bytes = n, .crossings = 2, .hop_seconds = 0.5},
                                 {.from = 1, .to = 3, .bytes = n, .crossings = 0.5}},
                       .seconds = 1}),
              1 + 2 * 3.5 + 0.5 * 3 + T, 1e-9);
  EXPECT_NEAR(
      seconds({.rounds = 2, .flows = {{.from = 0, .to = 2, .bytes = n, .hop_seconds = 0.5}}, .seconds = 0.25}, 2),
      2 * (0.25 + 7 + T), 1e-9);
}

}  // namespace flow_sharing_test
}  // namespace twofold::sim
