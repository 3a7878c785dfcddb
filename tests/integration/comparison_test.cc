// From two reports to a comparison: what their difference is made of, and what may be compared.
#include "experiments/program/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "experiments/program/comparison_text.h"
#include "tests/integration/made_records.h"

namespace twofold {
namespace comparison_test {

using made_records::Of;
using made_records::Records;
using made_records::RecordsOfALoadedMachine;
using made_records::Spec;
using made_records::Traced;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Compare, SplitsTheErrorIntoPartsThatAddUp) {
  const spec::Spec spec = Spec();
  report::Report predicted = Of(spec, Records(0.5, 1.1), true), measured = Of(spec, Records(), false);
  predicted.set_median_step_seconds(3.6);
  predicted.set_exposed_communication_seconds(1);
  const Comparison c = Compare(predicted, spec, measured, spec);
  EXPECT_NEAR(c.values[0].error(), 0.2, 1e-12);
  double parts = 0;
  for (const ComparedValue& part : c.step_parts) parts += part.predicted - part.measured;
  EXPECT_NEAR(parts, 0.6, 1e-12);
  EXPECT_EQ(c.inside_interval, true);  // 1.5 to 3.3 holds 3
  predicted.set_high(2.9);
  EXPECT_EQ(Compare(predicted, spec, measured, spec).inside_interval, false);
  EXPECT_TRUE(c.remarks.empty());
}

// The measured median is 3 s.
TEST(Compare, SaysWhyAMeasurementLiesOutsideTheInterval) {
  const spec::Spec spec = Spec();
  const auto text = [&](double low, double high, double at_calibration, double waited) {
    report::Report predicted = Of(spec, Records(), true);
    predicted.set_low(low), predicted.set_high(high);
    if (at_calibration >= 0) predicted.mutable_load()->set_taken(at_calibration);
    const Comparison c =
        Compare(predicted, spec, Of(spec, waited >= 0 ? RecordsOfALoadedMachine(waited) : Records(), false), spec);
    return ComparisonText({&c, 1});
  };
  EXPECT_THAT(text(2, 4, 0, 0),
              HasSubstr("The measured median lies inside the predicted interval, 2.00 s to 4.00 s.\n"));
  EXPECT_THAT(text(2, 4, 0, 0), Not(HasSubstr("other work")));
  EXPECT_THAT(
      text(2, 4, 0, 4),
      HasSubstr(
          "During the measured run: other work kept 0.9 processors busy and delayed it by up to 40 % of the time"));

  const std::string loaded = text(1, 2, 0.01, 4);
  EXPECT_THAT(loaded, HasSubstr("*** OUTSIDE: the measured median, 3.00 s, lies outside the predicted interval, 1.00 s "
                                "to 2.00 s: 50 % above it. ***\n"));
  EXPECT_THAT(loaded, HasSubstr("While the prediction's kernels were calibrated: other work kept 0.0 processors busy "
                                "and delayed it by up to 1 % of the time."));
  EXPECT_THAT(loaded,
              HasSubstr("Load can be the reason: without it the step would have taken between 1.80 s and 3.00 s."));
  EXPECT_THAT(text(1, 1.5, 0.01, 4), HasSubstr("Load alone is not the reason: the table above shows"));
  EXPECT_THAT(text(4, 5, 0.3, 0), HasSubstr("25 % below it. ***"));
  EXPECT_THAT(text(4, 5, 0.3, 0), HasSubstr("calibration was delayed more than its interval accounts for"));
  EXPECT_THAT(text(1, 2, 0, 0), HasSubstr("Load is not the reason: the table above shows"));
  EXPECT_THAT(text(1, 2, -1, 4), HasSubstr("the load of the machine is not known"));
  EXPECT_THAT(text(1, 2, -1, -1), HasSubstr("Load may or may not be the reason"));
}

double Sum(const std::vector<ComparedValue>& values, double ComparedValue::*side) {
  double sum = 0;
  for (const ComparedValue& v : values) sum += v.*side;
  return sum;
}

TEST(Compare, OfTracedRunsNamesKernelsCollectivesWaitingHostAndRest) {
  const spec::Spec spec = Spec();
  report::Report predicted = Of(spec, Traced(1), true), measured = Of(spec, Traced(), false);
  predicted.mutable_kernels(0)->set_seconds(0.125);
  predicted.set_median_step_seconds(2.5);
  predicted.set_high(2.9);
  measured.mutable_kernels(1)->set_kernel("matmul_tn");
  const Comparison c = Compare(predicted, spec, measured, spec);
  ASSERT_EQ(c.step_parts.size(), 4u);
  for (double ComparedValue::*side : {&ComparedValue::predicted, &ComparedValue::measured}) {
    EXPECT_NEAR(Sum(c.step_parts, side), c.values[0].*side, 1e-12);
    EXPECT_NEAR(Sum(c.kernels, side), c.step_parts[0].*side, 1e-12);
    EXPECT_NEAR(Sum(c.exposed, side), c.step_parts[1].*side, 1e-12);
  }
  EXPECT_EQ(c.kernels[0].name, "matmul_nn");  // only one side has it: the largest differences first
  EXPECT_EQ(c.step_parts[1].predicted, predicted.exposed_communication_seconds());
  EXPECT_DOUBLE_EQ(c.step_parts[2].measured, 3 - 1.25 - 0.75);  // the host: neither kernels nor stalled
  EXPECT_DOUBLE_EQ(c.step_parts[3].predicted, 2.5 - 3);
  ASSERT_EQ(c.exposed.size(), 2u);
  EXPECT_EQ(c.exposed[1].name, "waiting for other ranks");
  EXPECT_DOUBLE_EQ(c.exposed[1].predicted - c.exposed[1].measured, 0.25);
  predicted.set_exposed_communication_seconds(0.875);  // the median's, of which the traced step had less
  const Comparison beyond = Compare(predicted, spec, measured, spec);
  EXPECT_EQ(beyond.step_parts[1].predicted, 0.875);
  EXPECT_NEAR(Sum(beyond.exposed, &ComparedValue::predicted), 0.875, 1e-12);
  EXPECT_NEAR(Sum(beyond.step_parts, &ComparedValue::predicted), 2.5, 1e-12);
  const std::string text = ComparisonText({&c, 1});
  for (const char* row : {"matmul_nn", "matmul_tn", "adam_step", "all_reduce on dp", "waiting for other ranks",
                          "host between kernels", "the rest", "-250 ms", "outside the predicted interval"}) {
    EXPECT_THAT(text, HasSubstr(row)) << text;
  }
}

TEST(Compare, NamesRanksWhoseBytesDifferAndRunsThatDiffer) {
  const spec::Spec spec = Spec();
  spec::Spec other = spec;
  other.mutable_train()->set_seed(99);
  report::Report predicted = Of(spec, Records(), true);
  predicted.mutable_ranks(1)->set_peak_bytes(7);
  const report::Report measured = Of(spec, Records(), false);
  EXPECT_THAT(Compare(predicted, spec, measured, spec).remarks, Contains(HasSubstr("rank 1")));
  const Comparison c = Compare(predicted, spec, measured, other);
  EXPECT_THAT(c.remarks, ::testing::ElementsAre(HasSubstr("differ in train")));
  EXPECT_EQ(c.inside_interval, std::nullopt);
}

TEST(Compare, JudgesAPredictionByAMeasurementOfTheSameWorkAlone) {
  const spec::Spec spec = Spec();
  const report::Report predicted = Of(spec, Records(), true), measured = Of(spec, Records(), false);
  const auto judged = [&](const report::Report& p, const report::Report& m, const spec::Spec& of_m) {
    return Compare(p, spec, m, of_m).inside_interval.has_value();
  };
  EXPECT_TRUE(judged(predicted, measured, spec));
  EXPECT_FALSE(judged(predicted, predicted, spec));
  EXPECT_FALSE(judged(measured, measured, spec));
  EXPECT_FALSE(
      judged(predicted, Of(spec, RunResult{.status = ToStatus(PeerLost(1, "gone")), .results = {}}, false), spec))
      << "no step was measured";
  spec::Spec other = spec;
  other.mutable_fabric()->mutable_mpi(), other.mutable_data()->mutable_synthetic()->set_samples(7);
  other.mutable_train()->mutable_checkpoint()->set_path("elsewhere");
  spec::Spec checkpointed = spec;
  checkpointed.mutable_train()->mutable_checkpoint()->set_path("here");
  EXPECT_TRUE(Compare(predicted, checkpointed, measured, other).inside_interval.has_value());
  other.mutable_parallel()->set_tp(2);
  EXPECT_FALSE(Compare(predicted, checkpointed, measured, other).inside_interval.has_value());
}

TEST(Compare, HoldsARanksBytesAgainstItsOwnWhereOthersWereLost) {
  const spec::Spec spec = Spec();
  report::Report measured = Of(spec, Records(), false);
  measured.mutable_ranks()->DeleteSubrange(0, 1);
  EXPECT_TRUE(Compare(Of(spec, Records(), true), spec, measured, spec).remarks.empty());
  measured.mutable_ranks(0)->set_peak_bytes(7);
  EXPECT_THAT(Compare(Of(spec, Records(), true), spec, measured, spec).remarks,
              Contains(HasSubstr("differ on rank 1")));
}

}  // namespace comparison_test
}  // namespace twofold
