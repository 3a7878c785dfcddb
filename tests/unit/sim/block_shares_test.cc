// Shares by block are those of the solver that knows no blocks, flow by flow and link by link, all the time.
#include "sim/sharing/block_shares.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sim/sharing/fluid.h"
#include "tests/seed.h"

namespace twofold::sim {
namespace block_shares_test {

struct Given {
  std::vector<int> links, weights;
  double bytes, rate = Fluid::kNoLimit;
};

struct Found {
  size_t steps = 0, blocks = 0;
  std::vector<double> ends;
};

// Goes through both solutions in step, and expects the same rates of all flows and, from those, the same loads.
Found ExpectFluids(const std::vector<double>& bandwidths, const std::vector<Given>& flows) {
  Fluid fluid(bandwidths);
  BlockShares shares(bandwidths);
  for (const Given& f : flows) {
    fluid.Add(f.links, f.bytes, f.rate, f.weights);
    shares.Add(f.links, f.bytes, f.rate, f.weights);
  }
  std::vector<Fluid::Change> changes;
  fluid.Solve(changes);
  std::vector<double> rates(flows.size()), expected(flows.size()), loads(bandwidths.size());
  Found found{.ends = std::vector<double>(flows.size())};
  size_t change = 0;
  double before = -1;
  while (const auto step = shares.Next()) {
    ++found.steps;
    EXPECT_GT(step->time, before) << "steps are in order";
    before = step->time;
    for (const auto& [flow, rate] : step->rates) {
      rates[static_cast<size_t>(flow)] = rate;
      if (rate == 0) found.ends[static_cast<size_t>(flow)] = step->time;
    }
    for (const auto& [link, more] : step->loads) loads[static_cast<size_t>(link)] += more;
    for (; change < changes.size() && changes[change].time <= step->time * (1 + 1e-10); ++change)
      expected[static_cast<size_t>(changes[change].flow)] = changes[change].rate;
    std::vector<double> sums(bandwidths.size());
    for (size_t f = 0; f < flows.size(); ++f) {
      EXPECT_NEAR(rates[f], expected[f], 1e-9 * expected[f]) << "flow " << f << " from " << step->time << " on";
      for (size_t i = 0; i < flows[f].links.size(); ++i)
        sums[static_cast<size_t>(flows[f].links[i])] += flows[f].weights[i] * rates[f];
    }
    for (size_t l = 0; l < bandwidths.size(); ++l)
      EXPECT_NEAR(loads[l], sums[l], 1e-9 * bandwidths[l]) << "link " << l << " from " << step->time << " on";
    if (testing::Test::HasFailure()) return found;
  }
  EXPECT_EQ(change, changes.size());
  found.blocks = shares.blocks();
  return found;
}

std::vector<int> Ones(size_t count) { return std::vector<int>(count, 1); }

TEST(BlockShares, OfOneLink) {
  const auto near = [](double time) { return testing::DoubleNear(time, 1e-12 * time); };
  EXPECT_THAT(ExpectFluids({6}, {{{0}, {1}, 2}, {{0}, {1}, 4}, {{0}, {1}, 6}}).ends,
              testing::ElementsAre(near(1), near(5.0 / 3), near(2)));
  EXPECT_THAT(ExpectFluids({6}, {{{0}, {2}, 6}, {{0}, {1}, 6, 1}}).ends, testing::ElementsAre(near(2.4), near(6)));
}

// Flow 2 ends first and leaves link 1 to flow 1, which then takes of link 0 what flow 0 had: that becomes slower.
TEST(BlockShares, AnEndMakesAnotherSlower) {
  const Found found = ExpectFluids({10, 4, 100}, {{{0}, {1}, 100}, {{0, 1}, {1, 1}, 100}, {{1}, {1}, 2}});
  EXPECT_EQ(found.steps, 4u);
  EXPECT_NEAR(found.ends[2], 1, 1e-12);
}

// Flows 0 to 2 have links of their own. Those that end first let others grow until these slow down flows 0 and 1: most
// of the block; the third goes on as before.
TEST(BlockShares, MostOfABlockSlowsDown) {
  std::vector<Given> flows = {{{0, 3}, {1, 1}, 100}, {{1, 4}, {1, 1}, 100}, {{2}, {1}, 100}, {{5}, {6}, 1}};
  for (const int link : {3, 4}) flows.push_back({{link, 5}, {3, 3}, 1000});
  const Found found = ExpectFluids({1, 1, 1, 3, 3, 6}, flows);
  EXPECT_NEAR(found.ends[2], 100, 1e-9);
  EXPECT_GT(found.ends[0], 120);
}

TEST(BlockShares, WhatHasNoLinkHasALimit) { EXPECT_EQ(ExpectFluids({1}, {{{}, {}, 4, 2}}).ends[0], 2); }

// Two solutions of the same flows, in turn: those without bytes take no part, neither do links that only they cross.
TEST(BlockShares, OfKnownFlows) {
  FlowBlocks::Flows flows{.bandwidths = {6, 6, 1}, .links = {}, .weights = {}, .limits = {}};
  for (const std::vector<int>& links : std::vector<std::vector<int>>{{0, 1}, {0}, {1}, {0, 2}})
    flows.Add(links, Ones(links.size()), Fluid::kNoLimit);
  const auto network = std::make_shared<const FlowBlocks::Network>(std::move(flows));
  BlockShares some(network, {6, 12, 0, 0}), all(network, {6, 12, 6, 2});
  const auto next = [](BlockShares& of) { return of.Next().value(); };
  const BlockShares::Step first = next(some);
  EXPECT_THAT(first.rates, testing::UnorderedElementsAre(testing::Pair(0, 3), testing::Pair(1, 3)));
  EXPECT_THAT(first.loads, testing::UnorderedElementsAre(testing::Pair(0, 6), testing::Pair(1, 3)));
  EXPECT_THAT(next(all).rates, testing::UnorderedElementsAre(testing::Pair(0, 2.5), testing::Pair(1, 2.5),
                                                             testing::Pair(2, 3.5), testing::Pair(3, 1)));
  EXPECT_EQ(next(some).time, 2);
  EXPECT_EQ(next(some).time, 3);
  EXPECT_FALSE(some.Next());
  EXPECT_FALSE(BlockShares(network, {0, 0, 0, 0}).Next());
}

TEST(BlockShares, OfNothing) { EXPECT_FALSE(BlockShares({1}).Next()); }

// Any links, widths, weights, limits and sizes; many equal ones, so that blocks have several flows and links tie.
TEST(BlockShares, AreFluids) {
  std::mt19937 random(TestSeed());
  const auto any = [&random](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  size_t steps = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const int links = 1 + any(trial % 40 + 2), count = 1 + any(trial % 7 == 0 ? 150 : 40);
    const int sizes = 1 + any(6), widths = 1 + any(4), weights = 1 + any(3);
    std::vector<double> bandwidths;
    for (int l = 0; l < links; ++l)
      bandwidths.push_back(trial % 5 == 0 ? 1 + any(1000) / 100.0 : 2.0 * (1 + any(widths)));
    std::vector<Given> flows;
    for (int f = 0; f < count; ++f) {
      Given given{.links = {}, .weights = {}, .bytes = trial % 3 == 0 ? 1 + any(1000) / 64.0 : 1.0 + any(sizes)};
      for (int hop = 1 + any(4); hop > 0; --hop) {
        const int link = any(links);
        if (std::find(given.links.begin(), given.links.end(), link) != given.links.end()) continue;
        given.links.push_back(link), given.weights.push_back(1 + any(weights));
      }
      if (any(6) == 0) given.rate = 0.25 * (1 + any(4));
      flows.push_back(std::move(given));
    }
    steps += ExpectFluids(bandwidths, flows).steps;
    if (testing::Test::HasFailure()) FAIL() << "trial " << trial;
  }
  std::printf("%zu steps have the other solver's rates and loads\n", steps);
}

// Messages over all doubled distances at once, from each of n ports to another one, in pods of `pod` ports that share
// `up` cables each way, chosen by the receiver.
std::vector<Given> Doubled(int n, int pod, int up) {
  std::vector<Given> flows;
  for (int distance = 1; distance < n; distance *= 2) {
    for (int i = 0; i < n; ++i) {
      const int to = (i + distance) % n, cable = to % up;
      Given given{.links = {2 * i, 2 * to + 1}, .weights = {}, .bytes = 1.0 * std::min(distance, n - distance)};
      if (i / pod != to / pod) {
        given.links.push_back(2 * n + 2 * (i / pod * up + cable));
        given.links.push_back(2 * n + 2 * (to / pod * up + cable) + 1);
      }
      given.weights = Ones(given.links.size());
      flows.push_back(std::move(given));
    }
  }
  return flows;
}

// Pods do not divide the ports: nearly all flows are of different classes, but few blocks have rates of their own.
TEST(BlockShares, OfDoubledDistancesAreOfFewBlocks) {
  const int n = 300, pod = 28, up = 4;
  const std::vector<Given> flows = Doubled(n, pod, up);
  const std::vector<double> bandwidths(static_cast<size_t>(2 * n + 2 * ((n + pod - 1) / pod) * up), 5e10);
  const Found found = ExpectFluids(bandwidths, flows);
  std::printf("%zu flows in %zu blocks, %zu steps\n", flows.size(), found.blocks, found.steps);
  EXPECT_LT(found.blocks, flows.size() / 4);
}

}  // namespace block_shares_test
}  // namespace twofold::sim
