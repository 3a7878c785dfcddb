// From rank records to a report, and from two reports to a comparison: the arithmetic.
#include "experiments/program/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "core/base/errors.h"
#include "experiments/program/compare.h"
#include "experiments/program/comparison_text.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace assemble_test {

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

// Two ranks, steps of 9, 2, 4 and 3 seconds of which the first is warm-up.
RunResult Records(double low = 1, double high = 1) {
  RunResult result;
  for (int rank = 0; rank < 2; ++rank) {
    report::RankRecord record;
    record.set_rank(rank);
    for (const double seconds : {9.0, 2.0, 4.0, 3.0}) {
      report::Step* step = record.add_steps();
      step->set_seconds(seconds);
      step->set_loss(seconds / 2);
      step->set_exposed_communication_seconds(seconds / 4);
    }
    record.mutable_memory()->set_rank(rank);
    record.mutable_memory()->set_peak_bytes(1000 + rank);
    record.set_compute_low_ratio(rank == 0 ? 1 : low);
    record.set_compute_high_ratio(rank == 0 ? high : 1);
    record.add_notes("said by both");
    result.results.push_back(record.SerializeAsString());
  }
  return result;
}

spec::Spec Spec(const std::string& more = "") {
  return test::Resolve(StrCat(
      test::kTinyMlp, "train { steps: 4 global_batch: 6 micro_batch: 3 warmup_steps: 1 }\nparallel { dp: 2 }\n", more));
}

report::Report Of(const spec::Spec& spec, const RunResult& result, bool predicted, double peak = 0) {
  return Assemble(spec, {.fabric = "f", .predicted = predicted, .world_size = 2, .peak_flops_per_second = peak}, result,
                  *ReadRecords(spec, result));
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

// Two ranks whose last step, of 3 s, was traced: kernels 0 to 1 and 2.5 to 2.75, an all-reduce of 0.5 s at rank 1 that
// rank 0 began 0.75 s earlier, beside its first kernel; from 1.25 on its compute stream stood still for it.
RunResult Traced(double waiting_known = 0) {
  RunResult result = Records();
  std::vector<std::string> all = result.results.Copies();
  for (int rank = 0; rank < 2; ++rank) {
    report::RankRecord record;
    record.ParseFromString(all[static_cast<size_t>(rank)]);
    const auto add = [&](const char* stream, const char* name, double start, double end) {
      report::Span* span = record.add_spans();
      span->set_stream(stream), span->set_name(name), span->set_start(start), span->set_end(end);
      return span;
    };
    report::Span* call = add("communication dp", "all_reduce", rank == 0 ? 0.75 : 1.5, 2);
    call->set_waiting(waiting_known), call->set_exposed(rank == 0 ? 0.75 : 0.5);
    add("compute", "matmul_nn", 0, 1);
    add("compute", "adam_step", 2.5, 2.75);
    for (const auto& [name, seconds] : {std::pair("adam_step", 0.25), std::pair("matmul_nn", 1.0)}) {
      report::KernelTotal* kernel = record.add_kernels();
      kernel->set_kernel(name), kernel->set_count(1), kernel->set_seconds(seconds);
    }
    report::Collective* collective = record.add_collectives();
    collective->set_operation("all_reduce"), collective->set_group("dp"), collective->set_count(4),
        collective->set_seconds(4);
    all[static_cast<size_t>(rank)] = record.SerializeAsString();
  }
  result.results = all;
  return result;
}

TEST(StepTime, SaysWhatTheComputeStreamStoodStillFor) {
  const report::Report r = Of(Spec(), Traced(), /*predicted=*/false);
  EXPECT_DOUBLE_EQ(r.traced_step_seconds(), 3);
  EXPECT_DOUBLE_EQ(r.waiting_seconds(), 0.25);  // the last rank came at 1.5
  EXPECT_DOUBLE_EQ(r.collectives(0).exposed_seconds(), 0.5);
  EXPECT_EQ(r.exposed_other_seconds(), 0);
}

TEST(StepTime, AKnownWaitingCountsWhereTheOtherRanksWereNotSeen) {
  const report::Report r = Of(Spec(), Traced(/*waiting_known=*/1), /*predicted=*/true);
  EXPECT_DOUBLE_EQ(r.waiting_seconds(), 0.5);  // until 1.75
  EXPECT_DOUBLE_EQ(r.collectives(0).exposed_seconds(), 0.25);
}

// Times of a clock that stands at 300 s have last bits of 6e-14 s.
TEST(StepTime, LastBitsOfAClockAreNoWaiting) {
  RunResult result;
  for (const int rank : {0, 1}) {
    report::RankRecord record;
    record.set_rank(rank), record.set_trace_origin_seconds(300);
    record.add_steps()->set_seconds(3);
    record.mutable_steps(0)->set_exposed_communication_seconds(1);
    record.add_kernels()->set_kernel("matmul_nn"), record.mutable_kernels(0)->set_count(1),
        record.mutable_kernels(0)->set_seconds(1);
    report::Collective* collective = record.add_collectives();
    collective->set_operation("all_reduce"), collective->set_group("dp"), collective->set_count(1);
    report::Span* call = record.add_spans();
    call->set_stream("communication dp"), call->set_name("all_reduce"), call->set_start(1), call->set_end(2);
    call->set_exposed(1), call->set_waiting(2.5e-13);
    result.results.push_back(record.SerializeAsString());
  }
  EXPECT_EQ(Of(Spec(), result, /*predicted=*/true).waiting_seconds(), 0);
}

// The last 4 steps of 7 were to be traced; the run ended after the fourth, the first of them.
TEST(StepTime, IsOfTheTracedStepsThatWereDone) {
  spec::Spec spec = Spec("trace { last_steps: 4 }\n");
  spec.mutable_train()->set_steps(7);
  const report::Report r = Of(spec, Traced(), /*predicted=*/false);
  EXPECT_DOUBLE_EQ(r.traced_step_seconds(), 3);
  EXPECT_DOUBLE_EQ(r.waiting_seconds(), 0.25);
}

// A record of rank 0 with one kernel and the spans that are given: stream, name, start, end.
RunResult WithSpans(
    const std::vector<std::tuple<std::string, std::string, double, double>>& spans,
    const std::function<void(report::RankRecord&)>& change = [](report::RankRecord&) {}) {
  RunResult result = Records();
  report::RankRecord record;
  record.ParseFromString(result.results[0]);
  for (const auto& [stream, name, start, end] : spans) {
    report::Span* span = record.add_spans();
    span->set_stream(stream), span->set_name(name), span->set_start(start), span->set_end(end);
    if (stream == "compute") continue;
    report::Collective* collective = record.add_collectives();
    collective->set_operation(name), collective->set_group(stream.substr(stream.find(' ') + 1));
  }
  report::KernelTotal* kernel = record.add_kernels();
  kernel->set_kernel("add"), kernel->set_count(1), kernel->set_seconds(1);
  change(record);
  result.results = {record.SerializeAsString()};
  return result;
}

// Two calls that overlap: each has what the compute stream stood still for it, whoever was there first. A transfer has
// the rest of the 0.75 s.
TEST(StepTime, WhatNoCallHasIsToldApart) {
  const auto stood_still = [](report::RankRecord& record) {
    record.mutable_spans(0)->set_exposed(0.25), record.mutable_spans(1)->set_exposed(0.375);
  };
  const report::Report r = Of(Spec(),
                              WithSpans({{"communication a", "all_reduce", 0.5, 1},
                                         {"communication b", "broadcast", 0.25, 3},
                                         {"compute", "add", 0, 0.5},
                                         {"compute", "add", 1, 2}},
                                        stood_still),
                              false);
  ASSERT_EQ(r.collectives_size(), 2);
  EXPECT_DOUBLE_EQ(r.collectives(0).exposed_seconds(), 0.25);
  EXPECT_DOUBLE_EQ(r.collectives(1).exposed_seconds(), 0.375);
  EXPECT_DOUBLE_EQ(r.exposed_other_seconds(), 0.125);
}

// Of six steps, the last four to be traced, four were done: the last two of them, of 4 and 3 s, were traced.
TEST(StepTime, ARunThatStoppedEarlyHasFewerTracedSteps) {
  const spec::Spec spec = test::Resolve(StrCat(test::kTinyMlp,
                                               "train { steps: 6 global_batch: 6 micro_batch: 3 warmup_steps: 1 }\n"
                                               "parallel { dp: 2 } trace { last_steps: 4 }"));
  EXPECT_DOUBLE_EQ(Of(spec, WithSpans({{"compute", "add", 0, 1}}), false).traced_step_seconds(), 3.5);
}

TEST(StepTime, IsNotThereWithoutATrace) {
  const report::Report r = Of(Spec(), Records(), false);
  EXPECT_EQ(r.traced_step_seconds(), 0);
  EXPECT_EQ(r.waiting_seconds(), 0);
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

// Two ranks of one process: for 4 of 10 s other work had their processors.
RunResult RecordsOfALoadedMachine(double waited) {
  RunResult result = Records();
  std::vector<std::string> longer = result.results.Copies();
  for (std::string& bytes : longer) {
    report::RankRecord more;
    report::ProcessorUse& use = *more.mutable_processors();
    use.set_host("h"), use.set_process(1), use.set_wall(10), use.set_ran(5), use.set_waited(waited),
        use.set_process_ran(10), use.set_busy(19);
    bytes += more.SerializeAsString();
  }
  result.results = std::move(longer);
  return result;
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

}  // namespace assemble_test
}  // namespace twofold
