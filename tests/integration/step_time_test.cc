// Where the time of a traced step goes: waiting, collectives that the compute stream stood still for, the rest.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/made_records.h"

namespace twofold {
namespace step_time_test {

using made_records::Of;
using made_records::Records;
using made_records::Spec;
using made_records::Traced;

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

}  // namespace step_time_test
}  // namespace twofold
