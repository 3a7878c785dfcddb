// The fit finds the figures of a made-up machine from its jobs.
#include "experiments/program/calibrate/fit_training.h"

#include <cmath>

#include "gtest/gtest.h"

namespace twofold::calibrate {
namespace fit_training_test {

// Jobs of two kernels and a collective, which a simulator without noise predicts.
struct JobShape {
  double matmul, add, launches, communication;
};
constexpr JobShape kShapes[] = {{10e-3, 4e-3, 100, 3e-3}, {30e-3, 2e-3, 200, 5e-3}, {6e-3, 6e-3, 400, 2e-3}};

double Factor(const profile::Training* t, const std::string& kernel) {
  if (t == nullptr) return 1;
  for (const profile::KernelFactor& f : t->kernels()) {
    if (f.kernel() == kernel) return f.factor();
  }
  return t->factor();
}

JobTimes Predicted(size_t job, bool overlap, const profile::Training* t) {
  const JobShape& s = kShapes[job];
  JobTimes times{.launches = s.launches, .communication = s.communication};
  times.kernels = {{"matmul", s.matmul * Factor(t, "matmul")}, {"add", s.add * Factor(t, "add")}};
  const double compute = times.KernelSeconds() + (t == nullptr ? 0 : t->host_s() * s.launches);
  const double core_share = t == nullptr ? 1 : t->core_share();
  times.exposed = overlap ? 0 : s.communication + (t == nullptr ? 0 : t->waiting() * compute);
  times.step = compute + times.exposed + (overlap ? core_share * s.communication : 0);
  return times;
}

profile::Training Machine(double drift_low, double drift_high) {
  profile::Training t;
  for (const auto& [kernel, factor] : {std::pair("matmul", 1.1), std::pair("add", 1.5)}) {
    t.add_kernels()->set_kernel(kernel), t.mutable_kernels(t.kernels_size() - 1)->set_factor(factor);
  }
  t.set_factor(1), t.set_host_s(3e-6), t.set_waiting(0.02), t.set_core_share(0.4);
  t.set_low(drift_low), t.set_high(drift_high);
  return t;
}

// Each round the machine is as fast as the next of `speeds`.
std::vector<JobRun> Measured(const profile::Training& machine, const std::vector<double>& speeds, int ranks) {
  std::vector<JobRun> runs;
  for (size_t round = 0; round < speeds.size(); ++round) {
    for (size_t job = 0; job < std::size(kShapes); ++job) {
      for (const bool overlap : {false, true}) {
        if (overlap && ranks == 1) continue;
        JobTimes times = Predicted(job, overlap, &machine);
        if (ranks == 1) times.step -= times.exposed, times.exposed = 0;
        for (double* t : {&times.step, &times.exposed}) *t *= speeds[round];
        for (auto& [kernel, seconds] : times.kernels) seconds *= speeds[round];
        runs.push_back({job, overlap, static_cast<int>(round), times});
      }
    }
  }
  return runs;
}

TEST(FitTrainingTest, FindsWhatTheJobsWereMadeWith) {
  const auto t = FitTraining(2, Measured(Machine(1, 1), {1, 1, 1}, 2), Predicted);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->ranks(), 2);
  EXPECT_NEAR(Factor(&*t, "matmul"), 1.1, 1e-9);
  EXPECT_NEAR(Factor(&*t, "add"), 1.5, 1e-9);
  EXPECT_GT(t->factor(), 1.1);  // of whole jobs: between the two
  EXPECT_LT(t->factor(), 1.5);
  EXPECT_NEAR(t->host_s(), 3e-6, 1e-12);
  EXPECT_NEAR(t->waiting(), 0.02, 1e-9);
  EXPECT_NEAR(t->core_share(), 0.4, 1e-6);
  EXPECT_NEAR(t->low(), 1, 1e-6);
  EXPECT_NEAR(t->high(), 1, 1e-6);
}

TEST(FitTrainingTest, TheIntervalHoldsTheMachinesDrift) {
  const auto t = FitTraining(2, Measured(Machine(1, 1), {1.0, 1.1, 0.9, 1.0, 1.0}, 2), Predicted);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_NEAR(t->low(), 0.9, 0.01);
  EXPECT_NEAR(t->high(), 1.1, 0.01);
  EXPECT_NEAR(Factor(&*t, "matmul"), 1.1, 1e-9);  // medians
}

// A job unlike the others is predicted badly by them, and the interval says so although the fit is to all.
TEST(FitTrainingTest, TheIntervalHoldsJobsThatWereLeftOut) {
  std::vector<JobRun> runs = Measured(Machine(1, 1), {1, 1, 1}, 2);
  for (JobRun& run : runs) {
    if (run.job != 2) continue;
    run.measured.step *= 1.3;
    for (auto& [kernel, seconds] : run.measured.kernels) seconds *= 1.3;
  }
  const auto t = FitTraining(2, runs, Predicted);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_GT(t->high(), 1.2);
}

// But a kernel that one job alone has is known from that job.
TEST(FitTrainingTest, TheIntervalIsNotThatOfUnknownKernels) {
  const auto predict = [](size_t job, bool overlap, const profile::Training* t) {
    JobTimes times = Predicted(job, overlap, t);
    if (job == 2) times.kernels["conv"] = 10e-3 * Factor(t, "conv"), times.step += times.kernels["conv"];
    return times;
  };
  profile::Training machine = Machine(1, 1);
  machine.set_waiting(0);
  machine.add_kernels()->set_kernel("conv"), machine.mutable_kernels(2)->set_factor(4);
  std::vector<JobRun> runs;
  for (size_t job = 0; job < 3; ++job) runs.push_back({job, false, 0, predict(job, false, &machine)});
  const auto t = FitTraining(2, runs, predict);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_NEAR(Factor(&*t, "conv"), 4, 1e-9);
  EXPECT_NEAR(t->high(), 1, 1e-6);
}

TEST(FitTrainingTest, OneRankNeitherWaitsNorOverlaps) {
  const auto t = FitTraining(1, Measured(Machine(1, 1), {1, 1}, 1), Predicted);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->waiting(), 0);
  EXPECT_EQ(t->core_share(), 1);
  EXPECT_NEAR(t->host_s(), 3e-6, 1e-12);
}

TEST(FitTrainingTest, PassesOnWhatTheSimulatorSays) {
  const auto t = FitTraining(1, Measured(Machine(1, 1), {1}, 1),
                             [](size_t, bool, const profile::Training*) -> absl::StatusOr<JobTimes> {
                               return absl::InternalError("no simulator");
                             });
  EXPECT_EQ(t.status().message(), "no simulator");
}

}  // namespace fit_training_test
}  // namespace twofold::calibrate
