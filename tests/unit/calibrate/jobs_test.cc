#include "experiments/program/calibrate/jobs.h"

#include "core/run/trace.h"
#include "experiments/program/spec/spec.h"
#include "gtest/gtest.h"

namespace twofold::calibrate {
namespace jobs_test {

// Two warm-up steps, two plain ones of 3 and 5 s, two traced; each of two operations.
report::RankRecord Record(double slower) {
  report::RankRecord record;
  for (const double seconds : {90.0, 80.0, 3.0, 5.0, 40.0, 40.0}) {
    report::Step& step = *record.add_steps();
    step.set_seconds(seconds * slower), step.set_exposed_communication_seconds(seconds / 10);
  }
  const auto add = [&](const char* stream, std::string_view name, double start, double end, double waiting) {
    report::Span& span = *record.add_spans();
    span.set_stream(stream), span.set_name(std::string(name)), span.set_start(start), span.set_end(end),
        span.set_waiting(waiting);
  };
  add("communication dp", "all_reduce", 0, 3, 1);
  add("communication dp", "all_reduce", 10, 14, 0);
  add("compute", "matmul_nn", 0, 1 * slower, 0);
  add("compute", kCommunicationBesideCompute, 1, 2, 0);
  add("compute", "add", 2, 2.5, 0);
  add("compute", "matmul_nn", 10, 10 + 3 * slower, 0);
  add("compute", "add", 14, 14.5, 0);
  return record;
}

spec::Spec SixSteps() {
  spec::Spec spec;
  spec.mutable_train()->set_warmup_steps(2);
  spec.mutable_trace()->set_last_steps(2);
  return spec;
}

TEST(JobTimesTest, AreMediansOverStepsAndMeansOverRanks) {
  const JobTimes times = TimesFrom(SixSteps(), {Record(1), Record(2)});
  EXPECT_DOUBLE_EQ(times.step, (4 + 8) / 2.0);
  EXPECT_DOUBLE_EQ(times.exposed, 0.4);
  EXPECT_DOUBLE_EQ(times.kernels.at("matmul_nn").seconds, (2 + 4) / 2.0);
  EXPECT_DOUBLE_EQ(times.kernels.at("add").seconds, 0.5);
  EXPECT_EQ(times.kernels.at("add").calls, 1);
  EXPECT_EQ(times.kernels.size(), 2u);  // what communication took is no kernel
  EXPECT_DOUBLE_EQ(times.launches, 2);
  EXPECT_DOUBLE_EQ(times.communication, (2 + 4) / 2.0);  // the waiting left out
  EXPECT_DOUBLE_EQ(times.KernelSeconds(), 3.5);
}

TEST(JobsTest, AreWholeSpecsThatTrain) {
  ASSERT_GE(Jobs().size(), 2u);  // each is predicted by the others
  for (const Job& job : Jobs()) {
    spec::Spec spec = SpecOf(job, 2, 1, true);
    EXPECT_EQ(WorldSize(spec), 2);
    EXPECT_EQ(SpecOf(job, 96, 1, true).trace().ranks(), 96);  // whose kernels' mean is taken
    EXPECT_EQ(AccumulationSteps(spec), 1) << job.name;
    ASSERT_EQ(spec.train().warmup_steps() + spec.trace().last_steps(), 5);
    spec.mutable_train()->set_steps(6);  // one plain step
    const auto times = RunJob(job, spec);
    ASSERT_TRUE(times.ok()) << times.status();
    EXPECT_GT(times->launches, 20);
    EXPECT_GT(times->kernels.at("adam_step").seconds, 0);
    EXPECT_GT(times->step, 0);
    EXPECT_EQ(times->load.has_taken(), times->wall > 0);
    if (times->wall > 0) {
      EXPECT_GT(times->wall, times->step);  // of the whole job
    }
  }
}

}  // namespace jobs_test
}  // namespace twofold::calibrate
