#include <functional>
#include <numeric>

#include "backends/in_memory/fabric.h"
#include "core/device/kernel_names.h"
#include "experiments/program/calibrate/measure_kernels.h"
#include "experiments/program/calibrate/measure_links.h"
#include "gtest/gtest.h"

namespace twofold::calibrate {
namespace measure_test {

double Total(const std::vector<double>& seconds, const std::vector<int>& rounds) {
  double sum = 0;
  for (size_t i = 0; i < seconds.size(); ++i) sum += rounds[i] * std::max(seconds[i], kSample.value());
  return sum;
}

TEST(RoundsWithinTest, CheapKernelsGetMoreAndTheBudgetHolds) {
  std::vector<double> seconds(900, 1e-6);
  seconds.insert(seconds.end(), 100, 20e-3);
  const std::vector<int> rounds = RoundsWithin(seconds, Seconds(6), 9);
  EXPECT_EQ(rounds.front(), 9);
  EXPECT_EQ(rounds.back(), 1);
  EXPECT_LE(Total(seconds, rounds), 6);
  EXPECT_GT(Total(seconds, RoundsWithin(seconds, Seconds(12), 9)), 8);  // what there is, is used
  EXPECT_LE(Total(seconds, RoundsWithin(seconds, Seconds(12), 9)), 12);
}

TEST(RoundsWithinTest, MoreKernelsGetFewerRoundsEachAndOneAtLeast) {
  for (const size_t kernels : {1000u, 3000u, 9000u}) {
    const std::vector<double> seconds(kernels, 1e-3);
    const std::vector<int> rounds = RoundsWithin(seconds, Seconds(9.5), 9);
    EXPECT_LE(Total(seconds, rounds), 9.5) << kernels;
  }
  EXPECT_EQ(RoundsWithin({1, 1}, Seconds(1), 9), (std::vector<int>{1, 1}));
}

// Each once, as every calibration begins: no operation asks for more than its operands hold.
TEST(CasesTest, AllRun) {
  const std::vector<Case> cases = Cases(true);
  EXPECT_GT(cases.size(), 500u);
  EXPECT_GT(Cases(false).size(), 2 * cases.size());
  const auto fabric = MakeInMemoryFabric(spec::Spec());
  ASSERT_TRUE(fabric.ok()) << fabric.status();
  const RunResult tried = (*fabric)->Run(1, [&cases](RankContext& ctx) { return TryKernels(ctx, cases); });
  ASSERT_TRUE(tried.status.ok()) << tried.status.message();
  const Samples samples = Unpack(tried.results[0]);
  ASSERT_EQ(samples.size(), cases.size());
  for (size_t i = 0; i < samples.size(); ++i) EXPECT_GT(samples[i].at(0), 0) << "case " << i;
}

// What a cluster's file may name is what operations are called.
TEST(CasesTest, HaveKernelsThatAreKnown) {
  ShapesOnly shapes;
  for (const Case& c : Cases(true)) {
    const std::string_view name = ops::Key(c.make(shapes)).name;
    EXPECT_TRUE(ops::IsKernel(name)) << name;
  }
}

TEST(RoundsOfPartTest, PartsAddUpAndShareEvenly) {
  for (const int parts : {1, 3, 5}) {
    for (int rounds = 1; rounds <= 9; ++rounds) {
      int in_first = 0;
      for (size_t i = 0; i < 15; ++i) {
        int sum = 0;
        for (int part = 0; part < parts; ++part) sum += RoundsOfPart(rounds, i, part, parts);
        EXPECT_EQ(sum, rounds);
        in_first += RoundsOfPart(rounds, i, 0, parts);
      }
      EXPECT_EQ(in_first, 15 * rounds / parts);  // single rounds do not all fall into one part
    }
  }
}

// What a rank waited is handed in.
struct DisturbedKernels : testing::Test {
  static constexpr size_t kCases = 4;
  KernelPlan Plan(Seconds repeats) {
    KernelPlan plan;
    plan.cases = Cases(true);
    plan.cases.resize(kCases);
    plan.seconds.assign(kCases, 1e-3), plan.rounds.assign(kCases, 1);
    plan.repeats = repeats;
    return plan;
  }
  // Of one rank. `waits`: seconds by the number of the sample, those of the fixed kernel counted: 16 come before the
  // first case.
  KernelExtras Measure(KernelPlan plan, const std::function<double(int sample)>& waits) {
    double waited = 0;
    asked = 0;
    plan.waited = [&, waits](int) {  // before a sample, and behind it
      if (asked++ % 2 == 1) waited += waits(asked / 2 - 1);
      return waited;
    };
    const auto fabric = MakeInMemoryFabric(spec::Spec());
    const RunResult result = (*fabric)->Run(1, [&plan](RankContext& ctx) { return MeasureKernels(ctx, plan); });
    EXPECT_TRUE(result.status.ok()) << result.status;
    samples = Unpack(result.results[0]);
    return TakeExtras(samples);
  }
  int asked = 0;
  Samples samples;
};

TEST_F(DisturbedKernels, AreMeasuredAgain) {
  constexpr int kFirst = 16;  // samples of the fixed kernel before
  const KernelExtras quiet = Measure(Plan(Seconds(1)), [](int) { return 0.0; });
  EXPECT_EQ(quiet.disturbance.repeated, 0);
  EXPECT_EQ(quiet.disturbance.seen.share(), 0);
  EXPECT_EQ(samples.size(), kCases);
  EXPECT_EQ(quiet.fixed.size(), 2u);  // before and after
  const int all = asked;
  const KernelExtras once = Measure(Plan(Seconds(1)), [](int sample) { return sample == kFirst + 1 ? 1.0 : 0.0; });
  EXPECT_EQ(once.disturbance.repeated, 1);
  EXPECT_EQ(asked, all + 2);
  EXPECT_GT(once.disturbance.seen.share(), 0);
  EXPECT_EQ(once.disturbance.kept.share(), 0);
  for (const std::vector<double>& row : samples) EXPECT_EQ(row.size(), 1u) << "what is kept is as much as ever";
  const KernelExtras always = Measure(Plan(Seconds(1)), [](int) { return 1.0; });
  EXPECT_EQ(always.disturbance.repeated, static_cast<int64_t>(kRepeats * kCases));
  EXPECT_EQ(always.disturbance.kept.share(), 1);
  EXPECT_EQ(Measure(Plan(Seconds(2.5e-3)), [](int) { return 1.0; }).disturbance.repeated, 2) << "a millisecond each";
}

TEST(CollectivesFromTest, SizesThatManyRanksCannotShareAreLeftOut) {
  Samples samples(1 + std::size(kCollectives) * std::size(kCollectiveSizes), {1, 2, 3});
  const auto two = CollectivesFrom(samples, 1, 2), many = CollectivesFrom(samples, 1, 64);
  ASSERT_EQ(two.size(), std::size(kCollectives));
  EXPECT_EQ(two[0].operation(), "all_reduce");
  EXPECT_EQ(two[0].points_size(), static_cast<int>(std::size(kCollectiveSizes)));
  EXPECT_EQ(two[0].points(0).bytes(), 64);
  EXPECT_EQ(two[0].points(0).seconds(), 2);
  EXPECT_EQ(many[0].points(0).bytes(), 256);  // an element each
  for (const auto& c : many) {
    for (int i = 1; i < c.points_size(); ++i) EXPECT_GT(c.points(i).bytes(), c.points(i - 1).bytes());
  }
}

}  // namespace measure_test
}  // namespace twofold::calibrate
