// Samples of phases: they cover all phases, and what they say of the sum is right to within the error that they state.
#include "sim/phase_sample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "sim/phase_times.h"
#include "tests/seed.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold::sim {
namespace phase_sample_test {

Schedule AllToAll(int ranks, double bytes) {
  return *DirectSchedule({Communication::kAllToAll, ranks, bytes, 0, {}}, UniformPlaces(ranks, 0, 1e9));
}

double SumOf(const std::vector<PhaseSample>& sample, const std::vector<double>& seconds) {
  double sum = 0;
  for (const PhaseSample& s : sample) sum += s.stands_for * seconds[s.phase];
  return sum;
}

double ErrorOf(const std::vector<PhaseSample>& sample, const std::vector<double>& seconds) {
  std::vector<double> own;
  for (const PhaseSample& s : sample) own.push_back(seconds[s.phase]);
  return StandardErrorOf(sample, own);
}

// Strata of as equal length as can be, one phase of each; what is unlike the others stands for itself.
TEST(PhaseSample, IsOneOfEachStratum) {
  Schedule schedule = AllToAll(1001, 1e6);  // 1,000 phases; the first has a round, which costs latency
  schedule.phases[500].flows.pop_back();
  const std::vector<PhaseSample> sample = SamplePhases(schedule, 1, 50 * 1001);
  ASSERT_EQ(sample.size(), 1 + 50 + 1 + 50u);
  EXPECT_EQ(sample[0].phase, 0u);
  EXPECT_EQ(sample[0].stands_for, 1);
  EXPECT_EQ(sample[51].phase, 500u);
  EXPECT_EQ(sample[51].stands_for, 1);
  size_t first = 0;
  for (const auto& [phase, stands_for] : sample) {
    EXPECT_GE(phase, first);
    first += static_cast<size_t>(stands_for);
    EXPECT_LT(phase, first);
    if (stands_for != 1) {
      EXPECT_TRUE(stands_for == 9 || stands_for == 10) << stands_for;
    }
  }
  EXPECT_EQ(first, schedule.phases.size());
  const auto same = [&](const std::vector<PhaseSample>& other) {
    return std::equal(sample.begin(), sample.end(), other.begin(), other.end(),
                      [](const PhaseSample& a, const PhaseSample& b) { return a.phase == b.phase; });
  };
  EXPECT_TRUE(same(SamplePhases(schedule, 1, 50 * 1001)));
  EXPECT_FALSE(same(SamplePhases(schedule, 2, 50 * 1001)));
}

TEST(PhaseSample, IsAllPhasesIfTheyAreFewOrHaveFewFlows) {
  const Schedule few = AllToAll(30, 1e6), small = AllToAll(200, 1e6);
  EXPECT_EQ(SamplePhases(few, 1, 1).size(), 29u) << "no more phases than strata";
  EXPECT_EQ(SamplePhases(small, 1, 198 * 200).size(), 199u);
  EXPECT_EQ(SamplePhases(small, 1, 198 * 200 - 1).size(), 198u);
  for (const PhaseSample& s : SamplePhases(few, 1, 1)) EXPECT_EQ(s.stands_for, 1);
  EXPECT_EQ(ErrorOf(EveryPhase(few), std::vector<double>(29, 1.0)), 0);
}

// Seconds that grow and scatter: over many samples, sums scatter around the right one as their standard errors say.
TEST(PhaseSample, SumsScatterByTheStandardError) {
  std::mt19937 random(TestSeed());
  std::normal_distribution<double> noise(0, 0.1);
  const Schedule schedule = AllToAll(2000, 1e6);
  std::vector<double> seconds;
  for (size_t p = 0; p < schedule.phases.size(); ++p)
    seconds.push_back(1 + static_cast<double>(p) / 2000 + noise(random));
  const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  double mean = 0, squares = 0, errors = 0;
  constexpr int kTimes = 400;
  for (int i = 0; i < kTimes; ++i) {
    const std::vector<PhaseSample> sample = SamplePhases(schedule, random(), 100 * 2000);
    const double off = SumOf(sample, seconds) / all - 1;
    mean += off / kTimes, squares += off * off / kTimes, errors += ErrorOf(sample, seconds) / all / kTimes;
  }
  EXPECT_NEAR(std::sqrt(squares) / errors, 1, 0.2);
  EXPECT_LT(std::abs(mean), 4 * errors / std::sqrt(kTimes));
  EXPECT_NEAR(errors, 0.1 / 1.5 / 10, 0.001);  // of 100 that scatter by 0.1 around 1.5
}

// Which phases are alike is known without listing their flows.
TEST(PhaseSample, IsTheSameOfAllPairsAsOfFlowsOneByOne) {
  const auto teams = std::make_shared<const std::vector<std::vector<int>>>(250, std::vector<int>{0, 1});
  Schedule pairs, listed;
  for (size_t phase = 0; phase < 80; ++phase) {
    PairFlows flows{.teams = teams, .within = phase == 0, .first = 1 + phase, .step = 80, .kind_within = 1};
    Phase& own = pairs.phases.emplace_back();
    own.flows = FlowList(std::make_shared<const FlowPattern>(std::make_shared<const PairFlows>(std::move(flows))),
                         {{0, 0, phase < 60 ? 3.0 : 4.0}, {0, 0, 2.0}});
    listed.phases.push_back(own);
    listed.phases.back().flows.Listed();
  }
  for (const uint64_t seed : {1, 2, 3}) {
    const std::vector<PhaseSample> want = SamplePhases(listed, seed, 1), got = SamplePhases(pairs, seed, 1);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_LT(got.size(), 80u);
    for (size_t s = 0; s < want.size(); ++s) {
      EXPECT_EQ(got[s].phase, want[s].phase);
      EXPECT_EQ(got[s].stands_for, want[s].stands_for);
    }
  }
}

// Against the rule itself: every phase of an all-to-all under adaptive routing, flow by flow.
TEST(PhaseSample, GivesTheTimeOfAllPhasesOnTheCataloguesNetworks) {
  for (const char* name : {"alps", "perlmutter", "polaris", "hammingmesh-1k"}) {
    constexpr int kRanks = 160;
    const cluster::Cluster cluster = *FindCluster(name);
    const auto topology = *BuildTopology(cluster, static_cast<int>(std::min<int64_t>(MostNodes(cluster), 1024)));
    Router router(*topology, {.policy = RoutingPolicy::kAdaptive});
    PhaseTimes times(*topology, router);
    std::vector<int> endpoints(kRanks);
    for (int r = 0; r < kRanks; ++r) endpoints[static_cast<size_t>(r)] = r;
    const Schedule schedule = AllToAll(kRanks, 1e9);
    std::vector<double> seconds;
    for (const Phase& phase : schedule.phases) {
      const PhaseTimes::Part part{phase, endpoints};
      PhaseTimes::Time time = times.Bound({&part, 1});
      EXPECT_TRUE(time.exact) << name;
      seconds.push_back(time.seconds);
    }
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    double worst = 0, error = 0;
    for (const uint64_t seed : {1, 2, 3, 4, 5}) {
      const std::vector<PhaseSample> sample = SamplePhases(schedule, seed, 1);
      const double own = ErrorOf(sample, seconds) / all;
      EXPECT_NEAR(SumOf(sample, seconds) / all, 1, 4 * own + 1e-12) << name;
      worst = std::max(worst, std::abs(SumOf(sample, seconds) / all - 1)), error = std::max(error, own);
    }
    std::printf("%s: a fifth of the phases is off by at most %.2f %%, standard error %.2f %%\n", name, 100 * worst,
                100 * error);
    EXPECT_LT(worst, 0.03) << name;
  }
}

}  // namespace phase_sample_test
}  // namespace twofold::sim
