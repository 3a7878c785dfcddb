// The fit finds the figures of a made-up machine from its jobs.
#include "experiments/program/calibrate/fit_training.h"

#include <cmath>

#include "gtest/gtest.h"
#include "sim/cost/training_factors.h"

namespace twofold::calibrate {
namespace fit_training_test {

// Jobs of two kernels and a collective, which a simulator without noise predicts.
struct JobShape {
  double matmul, add, launches, communication;
  double calls = 10;  // of each kernel
};
constexpr JobShape kShapes[] = {{10e-3, 4e-3, 100, 3e-3}, {30e-3, 2e-3, 200, 5e-3}, {6e-3, 6e-3, 400, 2e-3}};

double Factor(const profile::Training* t, const std::string& kernel, double alone = 1e-4) {
  if (t == nullptr) return 1;
  return TrainingFactors(*t).Of(kernel, Seconds(alone)).value_or(t->factor());
}

JobTimes Predicted(size_t job, bool overlap, const profile::Training* t) {
  const JobShape& s = kShapes[job];
  JobTimes times{.launches = s.launches, .communication = s.communication};
  times.kernels = {{"matmul", {s.matmul * Factor(t, "matmul"), s.calls}},
                   {"add", {s.add * Factor(t, "add", s.add / s.calls), s.calls}}};
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
        for (auto& [name, kernel] : times.kernels) kernel.seconds *= speeds[round];
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
    for (auto& [name, kernel] : run.measured.kernels) kernel.seconds *= 1.3;
  }
  const auto t = FitTraining(2, runs, Predicted);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_GT(t->high(), 1.2);
}

// But a kernel that one job alone has is known from that job.
TEST(FitTrainingTest, TheIntervalIsNotThatOfUnknownKernels) {
  const auto predict = [](size_t job, bool overlap, const profile::Training* t) {
    JobTimes times = Predicted(job, overlap, t);
    if (job == 2) times.kernels["conv"] = {10e-3 * Factor(t, "conv"), 10}, times.step += times.kernels["conv"].seconds;
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

// Calls of 0.1 ms find their operands in the caches, those of 10 ms do not.
TEST(FitTrainingTest, AKernelHasAFactorForEachSizeOfItsCalls) {
  const JobShape large{.matmul = 20e-3, .add = 100e-3, .launches = 100, .communication = 3e-3};
  const auto predict = [&](size_t job, bool overlap, const profile::Training* t) {
    if (job < 3) return Predicted(job, overlap, t);
    JobTimes times = Predicted(0, overlap, t);
    times.step -= times.KernelSeconds();
    times.kernels = {{"matmul", {large.matmul * Factor(t, "matmul"), 10}},
                     {"add", {large.add * Factor(t, "add", large.add / 10), 10}}};
    times.step += times.KernelSeconds();
    return times;
  };
  profile::Training machine = Machine(1, 1);
  machine.mutable_kernels(1)->set_factor(0.5), machine.mutable_kernels(1)->set_alone_s(1e-3);
  machine.add_kernels()->set_kernel("add");
  machine.mutable_kernels(2)->set_factor(1), machine.mutable_kernels(2)->set_alone_s(10e-3);
  machine.set_waiting(0);
  std::vector<JobRun> runs;
  for (size_t job = 0; job < 4; ++job) runs.push_back({job, false, 0, predict(job, false, &machine)});
  const auto t = FitTraining(2, runs, predict);
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_NEAR(Factor(&*t, "add", 0.4e-3), 0.5, 1e-9);
  EXPECT_NEAR(Factor(&*t, "add", 10e-3), 1, 1e-9);
  EXPECT_NEAR(Factor(&*t, "add", 1), 1, 1e-9);
  EXPECT_NEAR(Factor(&*t, "add", std::sqrt(0.4e-3 * 10e-3)), 0.75, 1e-9);
  EXPECT_NEAR(Factor(&*t, "matmul"), 1.1, 1e-9);
  EXPECT_GT(t->high(), 1.2) << "small jobs say too little of large ones, which the interval must hold";
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
