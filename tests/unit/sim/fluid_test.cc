// Max-min shares of flows that begin together, against cases worked out by hand.
#include "sim/sharing/fluid.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace twofold::sim {
namespace fluid_test {

struct Given {
  std::vector<int> links;
  double bytes;
  double rate = Fluid::kNoLimit;
};

std::vector<double> Ends(const std::vector<double>& bandwidths, const std::vector<Given>& flows) {
  Fluid fluid(bandwidths);
  for (const Given& f : flows) fluid.Add(f.links, f.bytes, f.rate);
  return fluid.Solve();
}

void Expect(const std::vector<double>& bandwidths, const std::vector<Given>& flows, const std::vector<double>& ends) {
  const std::vector<double> found = Ends(bandwidths, flows);
  ASSERT_EQ(found.size(), ends.size());
  for (size_t i = 0; i < ends.size(); ++i) EXPECT_NEAR(found[i], ends[i], 1e-12 * (1 + ends[i])) << "flow " << i;
}

TEST(FluidTest, AFlowAloneMovesAtItsNarrowestLink) { Expect({10, 4, 8}, {{{0, 1, 2}, 8}}, {2}); }

TEST(FluidTest, FlowsOfOneLinkShareIt) {
  Expect({6}, {{{0}, 6}, {{0}, 6}}, {2, 2});
  Expect({6}, {{{0}, 6}, {{0}, 6}, {{0}, 6}}, {3, 3, 3});
  Expect({6}, {{{0}, 2}, {{0}, 4}, {{0}, 6}}, {1, 5.0 / 3, 2});  // what the first leaves, the others share
}

// The long flow shares either link with a short one; all have half (Bertsekas and Gallager, figure 6.10's chain).
TEST(FluidTest, TheLongFlowOfAChain) { Expect({1, 1}, {{{0, 1}, 1}, {{0}, 1}, {{1}, 1}}, {2, 2, 2}); }

// Link 0 leaves flows 0 and 1 one each; flow 2 has what link 1 has left: 9.
TEST(FluidTest, WhatOthersCannotUse) { Expect({2, 10}, {{{0}, 10}, {{0, 1}, 10}, {{1}, 9}}, {10, 10, 1}); }

// Flow 0 can move 1 at most, the others share 5 and then, when flow 1 has ended, flow 2 has them alone.
TEST(FluidTest, ALimitedFlowLeavesTheRest) {
  Expect({6}, {{{0}, 4, 1}, {{0}, 5}, {{0}, 10}}, {4, 2, 3});
  Expect({6}, {{{}, 4, 2}}, {2});
}

TEST(FluidTest, SetsThatShareNothingAreApart) {
  Expect({1, 2, 4}, {{{0}, 1}, {{1}, 1}, {{2}, 1}, {{2}, 3}}, {1, 0.5, 0.5, 1});
}

TEST(FluidTest, NothingEndsAtOnce) {
  Expect({1}, {{{0}, 0}, {{}, 5}, {{0}, 1}}, {0, 0, 1});
  Expect({1}, {}, {});
}

TEST(FluidTest, ClearKeepsTheLinks) {
  Fluid fluid(std::vector<double>{2});
  const std::vector<int> link = {0};
  fluid.Add(link, 4, 1), fluid.Add(link, 4);
  EXPECT_EQ(fluid.Solve(), (std::vector<double>{4, 4}));
  fluid.Clear();
  fluid.Add(link, 4);
  EXPECT_EQ(fluid.Solve(), (std::vector<double>{2}));
}

// Rates of all flows at once, or end after end: the same changes.
TEST(FluidTest, EndAfterEndIsAsAllAtOnce) {
  const auto add = [](Fluid& fluid) {
    for (const Given& f :
         std::vector<Given>{{{0}, 4, 1}, {{0, 1}, 5}, {{1}, 10}, {{2}, 3}, {{2}, 3}, {{}, 4, 2}, {{0}, 0}}) {
      fluid.Add(f.links, f.bytes, f.rate);
    }
  };
  Fluid at_once({6, 4, 1}), one_by_one({6, 4, 1});
  add(at_once), add(one_by_one);
  std::vector<Fluid::Change> expected, found;
  at_once.Solve(expected);
  one_by_one.Start(found);
  EXPECT_EQ(found.size(), 6U);  // the first rates of those with bytes
  while (one_by_one.Advance(found)) {
  }
  EXPECT_FALSE(one_by_one.Advance(found));
  const auto sorted = [](std::vector<Fluid::Change> changes) {
    std::vector<std::tuple<double, int, double>> all;
    for (const Fluid::Change& c : changes) all.emplace_back(c.time, c.flow, c.rate);
    std::sort(all.begin(), all.end());
    return all;
  };
  EXPECT_EQ(sorted(found), sorted(expected));
}

}  // namespace fluid_test
}  // namespace twofold::sim
