// From rank records to a report: the arithmetic.
#include "experiments/program/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "experiments/program/compare.h"
#include "tests/integration/made_records.h"

namespace twofold {
namespace assemble_test {

using made_records::Of;
using made_records::Records;
using made_records::RecordsOfALoadedMachine;
using made_records::Spec;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Quantile, InterpolatesBetweenRanks) {
  EXPECT_EQ(Quantile({}, 0.5), 0);
  EXPECT_EQ(Quantile({3}, 0.9), 3);
  EXPECT_EQ(Quantile({4, 1, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile({0, 10}, 0.1), 1);
  EXPECT_EQ(Quantile({5, 7}, 1), 7);
}

TEST(OutcomeOf, FollowsTheFirstCause) {
  EXPECT_EQ(OutcomeOf(absl::OkStatus()), report::OK);
  EXPECT_EQ(OutcomeOf(ToStatus(OutOfMemory(1, "m"))), report::OUT_OF_MEMORY);
  EXPECT_EQ(OutcomeOf(ToStatus(Deadlock(1, "m"))), report::DEADLOCK);
  EXPECT_EQ(OutcomeOf(ToStatus(Interrupted(1, "m"))), report::INTERRUPTED);
  EXPECT_EQ(OutcomeOf(ToStatus(PeerLost(1, "m"))), report::FAILED);
  EXPECT_EQ(OutcomeOf(ToStatus(CollectiveMismatch(1, "m"))), report::FAILED);
}

TEST(Assemble, TakesTheMedianAndPercentilesAfterWarmUp) {
  const report::Report r = Of(Spec(), Records(), /*predicted=*/false);
  EXPECT_EQ(r.median_step_seconds(), 3);
  EXPECT_DOUBLE_EQ(r.low(), 2.2);
  EXPECT_DOUBLE_EQ(r.high(), 3.8);
  EXPECT_EQ(r.exposed_communication_seconds(), 0.75);
  EXPECT_EQ(r.tokens_per_second(), 2);
  EXPECT_EQ(r.steps_size(), 4);
  EXPECT_EQ(r.ranks_size(), 2);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("only 3 steps")));
  EXPECT_EQ(std::count(r.notes().begin(), r.notes().end(), "said by both"), 1);
}

TEST(Assemble, SaysWhichOptionsAreOfReplicasThatAreNotThere) {
  const auto notes = [](std::string_view dp) {
    const spec::Spec spec =
        test::Resolve(StrCat(test::kTinyMlp, "train { steps: 4 global_batch: 6 micro_batch: 3 warmup_steps: 1 }\n",
                             "parallel { dp: ", dp, " bucket_mib: 0.5 reduce_every_micro_batch: true }\n"));
    return Of(spec, Records(), /*predicted=*/false).notes();
  };
  EXPECT_THAT(notes("1"), Contains(HasSubstr("parallel.bucket_mib = 0.5 has no effect: parallel.dp * cp = 1")));
  EXPECT_THAT(notes("1"), Contains(HasSubstr("parallel.reduce_every_micro_batch = true has no effect")));
  EXPECT_THAT(notes("2"), Not(Contains(HasSubstr("has no effect"))));
}

TEST(Assemble, GivesAPredictionTheWidestUncertaintyOfAnyRank) {
  const report::Report r = Of(Spec(), Records(0.8, 1.5), /*predicted=*/true);
  EXPECT_DOUBLE_EQ(r.low(), 3 - 0.2 * 2.25);  // 0.75 of the 3 s are communication
  EXPECT_DOUBLE_EQ(r.high(), 3 + 0.5 * 2.25);
}

TEST(Assemble, AddsIndependentUncertaintiesAsSquares) {
  RunResult result = Records(0.8, 1);
  std::vector<std::string> all = result.results.Copies();
  for (std::string& bytes : all) {
    report::RankRecord record;
    record.ParseFromString(bytes);
    record.set_communication_low_ratio(0.5), record.set_communication_high_ratio(3);
    record.set_machine_low_ratio(0.9), record.set_machine_high_ratio(1.25);
    bytes = record.SerializeAsString();
  }
  result.results = all;
  const report::Report r = Of(Spec(), result, /*predicted=*/true);
  EXPECT_DOUBLE_EQ(r.low(), 3 - std::hypot(0.2 * 2.25, 0.5 * 0.75, 0.1 * 3));
  EXPECT_DOUBLE_EQ(r.high(), 3 + std::hypot(0, 2 * 0.75, 0.25 * 3));
}

// A pipeline's bubble is idle time, but the links are not what it waits for.
TEST(Assemble, TakesABubbleForComputing) {
  RunResult result = Records(0.8, 1);
  std::vector<std::string> all = result.results.Copies();
  for (std::string& bytes : all) {
    report::RankRecord record;
    record.ParseFromString(bytes);
    record.set_communication_low_ratio(0.5);
    report::ActionTimes& actions = *record.add_actions();
    actions.set_step(2), actions.set_first(0), actions.set_last(4), actions.set_working(3.2);  // a fifth is idle
    bytes = record.SerializeAsString();
  }
  result.results = all;
  spec::Spec spec = Spec();
  spec.mutable_parallel()->set_dp(1), spec.mutable_parallel()->set_pp(2);
  const report::Report r = Of(spec, result, /*predicted=*/true);
  EXPECT_DOUBLE_EQ(r.bubble_fraction(), 0.2);
  EXPECT_DOUBLE_EQ(r.low(), 3 - std::hypot(0.2 * (3 - 0.15), 0.5 * 0.15));  // 0.6 of the 0.75 s are bubble
}

TEST(Assemble, HoldsFlopsAgainstThePeakOfAllRanks) {
  const report::Report r = Of(Spec(), Records(), false, /*peak=*/1000);
  EXPECT_DOUBLE_EQ(r.model_flops_per_step(), 3.0 * 2 * (8 * 24 + 24 * 16 + 16 * 5) * 6);
  EXPECT_DOUBLE_EQ(r.mfu(), r.model_flops_per_step() / 3 / 2000);
  EXPECT_EQ(Of(Spec(), Records(), false).mfu(), 0);
}

// The products that are launched: an MLP's are its model's; tiled attention computes scores once more in backward, and
// recomputation everything in a block. 2 tokens' products of one layer and the head by hand.
TEST(Assemble, CountsRecomputedFlopsForTheHardwareAlone) {
  const report::Report mlp = Of(Spec(), Records(), false, /*peak=*/1000);
  EXPECT_DOUBLE_EQ(mlp.hfu(), mlp.mfu());
  const auto ratio = [](const std::string& more) {
    const report::Report r =
        Of(test::Resolve(StrCat("model { gpt { layers: 1 hidden: 4 heads: 2 vocab: 256 sequence: 2 } }\n",
                                "train { steps: 4 warmup_steps: 1 ", more, " }\nparallel { dp: 2 }\n")),
           Records(), false, /*peak=*/1000);
    return r.hfu() / r.mfu();
  };
  constexpr double kProducts = 2 * (4 * 4 * 4 + 2 * 4 * 16), kAttention = 2 * 2 * 4, kHead = 2 * 4 * 256;
  constexpr double kModel = 3 * (kProducts + kAttention + kHead), kHardware = kModel + kAttention / 2;
  EXPECT_DOUBLE_EQ(ratio(""), kHardware / kModel);
  EXPECT_DOUBLE_EQ(ratio("activation_checkpointing {}"), (kHardware + kProducts + kAttention) / kModel);
}

TEST(Assemble, TakesNoValidationForBestThatIsNoNumber) {
  RunResult result = Records();
  report::RankRecord record;
  record.ParseFromString(result.results[0]);
  for (const double loss : {std::nan(""), 3.0, 2.0, std::nan("")}) record.add_validations()->set_loss(loss);
  result.results = {record.SerializeAsString(), result.results[1]};
  const report::Report r = Of(Spec(), result, false);
  EXPECT_EQ(r.best().loss(), 2);
  EXPECT_TRUE(std::isnan(r.last().loss()));
}

// A run that ended well has a record of every rank.
TEST(ReadRecords, RefusesWhatIsMissingOrCannotBeRead) {
  const auto message = [](const RunResult& result) {
    return std::string(ReadRecords(Spec(), result).status().message());
  };
  RunResult result = Records();
  EXPECT_EQ(message(result), "");
  result.results = {result.results[0], ""};
  EXPECT_EQ(message(result), "rank 1 left no record, although the run reports success");
  result.status = ToStatus(PeerLost(1, "rank 1 is gone"));
  EXPECT_EQ(message(result), "") << "a lost rank leaves none";
  result.results = {result.results[0], "\377\377"};
  EXPECT_EQ(message(result), "the record of rank 1: 2 bytes that are not a complete twofold.report.RankRecord");
}

// 2,048 ranks that rank 0 stands for.
TEST(Assemble, KeepsOneRecordOfRanksThatShareIt) {
  constexpr int kRanks = 2048;
  const spec::Spec spec = Spec();
  RunResult result = Records();
  result.results = RankResults({result.results[0]}, std::vector<int>(kRanks));
  const absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
  ASSERT_TRUE(records.ok()) << records.status();
  EXPECT_EQ(records->kept().size(), 1u);
  const auto report = [&](const RankRecords& of) {
    return Assemble(spec, {.fabric = "f", .predicted = true, .world_size = kRanks}, result, of);
  };
  const report::Report shared = report(*records);
  ASSERT_EQ(shared.ranks_size(), 1);
  EXPECT_EQ(shared.ranks(0).stands_for().count(), kRanks);
  EXPECT_EQ(shared.median_step_seconds(), 3);
  EXPECT_THAT(shared.notes(), Contains("said by both"));
  // Where the last rank has more than the others.
  report::RankRecord larger = records->lead();
  larger.mutable_memory()->set_peak_bytes(5000);
  RankRecords unlike;
  const size_t few = unlike.Keep(records->lead()), more = unlike.Keep(larger);
  for (int r = 0; r < kRanks; ++r) unlike.Add(r, r + 1 < kRanks ? few : more, false);
  const report::Report other = report(unlike);
  EXPECT_EQ(other.ranks_size(), 2);
  EXPECT_THAT(Compare(shared, spec, other, spec).remarks, ElementsAre(HasSubstr("differ on rank 2047:")));
  EXPECT_THAT(Compare(shared, spec, shared, spec).remarks, ElementsAre());
}

TEST(Assemble, ReportsAFailureWithoutAnyRecord) {
  RunResult result{.status = ToStatus(PeerLost(1, "rank 1 is gone")), .results = {"", ""}};
  const report::Report r = Of(Spec(), result, false);
  EXPECT_EQ(r.outcome(), report::FAILED);
  EXPECT_THAT(r.message(), HasSubstr("rank 1 is gone"));
  EXPECT_EQ(r.ranks_size(), 0);
}

TEST(Assemble, SaysHowLoadedTheMachineWas) {
  const report::Report loaded = Of(Spec(), RecordsOfALoadedMachine(4), false),
                       quiet = Of(Spec(), RecordsOfALoadedMachine(0.1), false);
  EXPECT_DOUBLE_EQ(loaded.load().taken(), 0.4);
  EXPECT_THAT(loaded.notes(), Contains("the machine was loaded during this run: other work kept 0.9 processors busy "
                                       "and delayed it by up to 40 % of the time"));
  EXPECT_DOUBLE_EQ(quiet.load().taken(), 0.01);
  EXPECT_THAT(quiet.notes(), Not(Contains(HasSubstr("loaded"))));
  EXPECT_FALSE(Of(Spec(), Records(), false).has_load()) << "not known";

  report::Load calibration;
  calibration.set_taken(0.25), calibration.set_others(1.5);
  const RunResult result = Records();
  const report::Report predicted =
      Assemble(Spec(), {.fabric = "f", .predicted = true, .world_size = 2, .calibration = calibration}, result,
               *ReadRecords(Spec(), result));
  EXPECT_EQ(predicted.load().taken(), 0.25);
  EXPECT_THAT(predicted.notes(), Contains("the machine was loaded during calibration: other work kept 1.5 processors "
                                          "busy and delayed it by up to 25 % of the time; "
                                          "the interval is wider for that reason"));
}

}  // namespace assemble_test
}  // namespace twofold
