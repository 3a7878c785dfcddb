// How a run of processes ends when a rank fails, on fabrics mpi and gloo: every process ends in time, the cause is
// named, nothing is left behind. Each case is a job of its own (scenario.cc), which takes seconds: one of each kind,
// and one that waits for a time-out. What differs within a kind is decided by hub and inquest, whose own tests have it;
// as jobs, --full has it too.
#include <string>
#include <string_view>
#include <vector>

#include "backends/registry.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/seed.h"
#include "tests/unit/mpi/job.h"

namespace twofold {
namespace failures_test {

using testing::AllOf;
using testing::HasSubstr;
using Code = absl::StatusCode;

constexpr char kWithFull[] = "with tests/run.sh --full";

class ProcessFailures : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = FindBackend(GetParam())->why_not(); !why.empty()) GTEST_SKIP() << why;
  }
  Outcome ExpectFailure(const std::string& scenario, Code code, testing::Matcher<std::string> message, int ranks = 3) {
    Job job(GetParam());
    const Outcome outcome = job.Run(scenario, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_THAT(outcome.message, message) << outcome.output;
    EXPECT_NE(outcome.exit_status, 0);
    EXPECT_EQ(job.LeftBehind(), "");
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(Fabrics, ProcessFailures, testing::Values("mpi", "gloo"),
                         [](const auto& fabric) { return std::string(fabric.param); });

TEST_P(ProcessFailures, NoneEndsWell) {
  for (const char* scenario : {"well", "well_in_flight"}) {
    Job job(GetParam());
    const Outcome outcome = job.Run(scenario, 3);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.results, testing::ElementsAre("whole of 0", "whole of 1", "whole of 2"));
    EXPECT_EQ(job.LeftBehind(), "");
  }
}

// ---- A rank dies ----

constexpr char kCall[] = "all_reduce(sum) of f32[10] (40 bytes), collective ";

// Whether a rank is told in a call, where it is stuck, or between two is chance.
auto Partial(int rank) { return testing::AnyOf(StrCat("snapshot of ", rank), StrCat("part of ", rank)); }

TEST_P(ProcessFailures, AnExceptionIsTheCause) {
  const Outcome outcome = ExpectFailure("throw", Code::kInternal, "rank 1: std::runtime_error: injected");
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "part of 1", Partial(2)));
}
TEST_P(ProcessFailures, AnExceptionBesideUnfinishedWork) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("throw_in_flight", Code::kInternal, "rank 1: std::logic_error: while in flight");
}
TEST_P(ProcessFailures, WhatIsNoStdExceptionIsACauseToo) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("throw_seven", Code::kInternal,
                HasSubstr("rank 1: an exception that does not derive from std::exception"));
}
TEST_P(ProcessFailures, ExitIsACause) {
  ExpectFailure("exit", Code::kInternal,
                AllOf(HasSubstr("rank 1: called exit(3)"), HasSubstr(kCall), HasSubstr("1 of group world")));
  if (Full()) ExpectFailure("exit_zero", Code::kInternal, HasSubstr("rank 1: called exit(0)"));
}
TEST_P(ProcessFailures, AKilledRankIsNamedWithWhatTheOthersWereIn) {
  const Outcome outcome = ExpectFailure(
      "kill", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 1: its process (process "), HasSubstr("has ended"), HasSubstr("rank 0, which is in "),
            HasSubstr("rank 2, which is in "), HasSubstr(StrCat(kCall, "2 of group world"))));
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "", Partial(2)));
}
TEST_P(ProcessFailures, ACrashIsALoss) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("abort", Code::kUnavailable, HasSubstr("lost rank 1"));
}
TEST_P(ProcessFailures, WhenRankZeroIsLostRankOneSpeaks) {
  const Outcome outcome = ExpectFailure(
      "kill_first", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 0: its process (process "), HasSubstr("rank 1, which is in "), HasSubstr(kCall)));
  EXPECT_THAT(outcome.results, testing::ElementsAre("", Partial(1), ""));
}

// ---- A rank hangs ----

TEST_P(ProcessFailures, AHangTimesOutAndNamesWhoIsMissing) {
  ExpectFailure(
      "hang", Code::kDeadlineExceeded,
      AllOf(HasSubstr(StrCat(
          kCall,
          "2 of group world has waited 3 s (fabric.timeout_s) for rank 1, which is computing; its last call was ",
          kCall, "1 of group world"))));
}
TEST_P(ProcessFailures, AStoppedProcessDoesNotAnswer) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("stop", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2")), HasSubstr("for rank 1, which does not answer")));
}
TEST_P(ProcessFailures, ADeadlockShowsBothSides) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("deadlock", Code::kDeadlineExceeded,
                AllOf(HasSubstr("send of f32[1048576] to rank 0, tag 3 (4194304 bytes), message 1 of group world"),
                      HasSubstr("send of f32[1048576] to rank 1, tag 3")),
                2);
}
TEST_P(ProcessFailures, ASplitThatNotAllMake) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("split", Code::kDeadlineExceeded,
                testing::AnyOf(HasSubstr("split 1 of group world"), HasSubstr(kCall)));
}
TEST_P(ProcessFailures, ReturningWhileOthersWait) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("return_early", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2 of group world has waited 3 s")),
                      HasSubstr("for rank 1, whose function has returned")));
}

// ---- Ranks call different collectives ----

TEST_P(ProcessFailures, MismatchesAreNamed) {
  struct Case {
    const char *scenario, *a, *b;
  };
  for (const Case& c : std::vector<Case>{{"kind", "rank 0 calls all_reduce(sum) of f32[8] (32 bytes)",
                                          "rank 1 calls all_gather of f32[12] (48 bytes)"},
                                         {"count", "rank 0 calls all_reduce(sum) of f32[10] (40 bytes)",
                                          "rank 1 calls all_reduce(sum) of f32[11] (44 bytes)"},
                                         {"count_large", "rank 0 calls all_reduce(sum) of f32[1000000]",
                                          "rank 1 calls all_reduce(sum) of f32[1000001]"},
                                         {"dtype", "rank 0 calls all_reduce(sum) of f32[4] (16 bytes)",
                                          "rank 1 calls all_reduce(sum) of i32[4] (16 bytes)"},
                                         {"op", "rank 0 calls all_reduce(sum)", "rank 1 calls all_reduce(max)"},
                                         {"order", "rank 0 calls all_reduce(sum) of f32[4] (16 bytes)",
                                          "rank 1 calls broadcast of f32[4] from root 0 (16 bytes)"}}) {
    if (!Full() && c.scenario != std::string_view("count_large") && c.scenario != std::string_view("order")) continue;
    SCOPED_TRACE(c.scenario);
    ExpectFailure(c.scenario, Code::kInvalidArgument,
                  AllOf(HasSubstr("collective mismatch in group world, collective 2"), HasSubstr(c.a), HasSubstr(c.b)));
  }
}
TEST_P(ProcessFailures, MismatchOfRoot) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("root", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 1"), HasSubstr("rank 0 calls broadcast of f32[4] from root 0"),
                      HasSubstr("from root 1")));
}
TEST_P(ProcessFailures, MismatchOfCountsInAllToAllV) {
  ExpectFailure("all_to_all_v", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 0 calls all_to_all_v sending 1 elements to rank 1"),
                      HasSubstr("rank 1 calls all_to_all_v expecting 3 elements from rank 0")));
}
TEST_P(ProcessFailures, ACollectiveTooManyIsFoundAtTheEnd) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  if (GetParam() == std::string_view("gloo")) {  // its broadcast waits until it is received
    ExpectFailure("extra", Code::kDeadlineExceeded,
                  AllOf(HasSubstr("rank 0: broadcast of f32[4] from root 0 (16 bytes), collective 2 of group world"),
                        HasSubstr("for rank 1, whose function has returned")));
    return;
  }
  ExpectFailure("extra", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes)"),
                      HasSubstr("calls nothing more")));
}
TEST_P(ProcessFailures, MessagesOfOtherSizes) {
  ExpectFailure("message_too_short", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"), HasSubstr("a message of 36 bytes"),
                      HasSubstr("40 were expected")));
  if (Full())
    ExpectFailure("message_too_long", Code::kInvalidArgument,
                  AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"),
                        testing::AnyOf(HasSubstr("more data arrived than expected"), HasSubstr("40 were expected"))));
}
TEST_P(ProcessFailures, SubGroupsAreNamedWithTheirRanks) {
  ExpectFailure(
      "sub_group", Code::kInvalidArgument,
      AllOf(HasSubstr("collective mismatch in group half (ranks 0, 2), collective 1"), HasSubstr("rank 2 calls")), 4);
}

// ---- From outside ----

TEST_P(ProcessFailures, AnInterruptOfTheLauncherIsReported) {
  Job job(GetParam());
  const Outcome outcome = job.Run("forever", 3, true);
  EXPECT_EQ(outcome.code, static_cast<int>(Code::kCancelled)) << outcome.output;
  EXPECT_EQ(outcome.results.size(), 3u);
  EXPECT_NE(outcome.exit_status, 0);
  EXPECT_EQ(job.LeftBehind(), "");
}

}  // namespace failures_test
}  // namespace twofold
