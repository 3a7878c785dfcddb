// How an MPI run ends when a rank fails: every process ends in time, the cause is named, nothing is left behind. Each
// case is a job of its own (scenario.cc), which takes seconds: one of each kind, and one that waits for a time-out.
// What differs within a kind is decided by hub and inquest, whose own tests have it; as jobs, --full has it too.
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

class MpiFailures : public testing::Test {
 protected:
  void SetUp() override {
    if (const Backend* mpi = FindBackend("mpi"); !mpi->why_not().empty()) GTEST_SKIP() << mpi->why_not();
  }
  Outcome ExpectFailure(const std::string& scenario, Code code, testing::Matcher<std::string> message, int ranks = 3) {
    Job job;
    const Outcome outcome = job.Run(scenario, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_THAT(outcome.message, message) << outcome.output;
    EXPECT_NE(outcome.exit_status, 0);
    EXPECT_EQ(job.LeftBehind(), "");
    return outcome;
  }
};

TEST_F(MpiFailures, NoneEndsWell) {
  for (const char* scenario : {"well", "well_in_flight"}) {
    Job job;
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

TEST_F(MpiFailures, AnExceptionIsTheCause) {
  const Outcome outcome = ExpectFailure("throw", Code::kInternal, "rank 1: std::runtime_error: injected");
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "part of 1", Partial(2)));
}
TEST_F(MpiFailures, AnExceptionBesideUnfinishedWork) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("throw_in_flight", Code::kInternal, "rank 1: std::logic_error: while in flight");
}
TEST_F(MpiFailures, WhatIsNoStdExceptionIsACauseToo) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("throw_seven", Code::kInternal,
                HasSubstr("rank 1: an exception that does not derive from std::exception"));
}
TEST_F(MpiFailures, ExitIsACause) {
  ExpectFailure("exit", Code::kInternal,
                AllOf(HasSubstr("rank 1: called exit(3)"), HasSubstr(kCall), HasSubstr("1 of group world")));
  if (Full()) ExpectFailure("exit_zero", Code::kInternal, HasSubstr("rank 1: called exit(0)"));
}
TEST_F(MpiFailures, AKilledRankIsNamedWithWhatTheOthersWereIn) {
  const Outcome outcome = ExpectFailure(
      "kill", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 1: its process (process "), HasSubstr("has ended"), HasSubstr("rank 0, which is in "),
            HasSubstr("rank 2, which is in "), HasSubstr(StrCat(kCall, "2 of group world"))));
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "", Partial(2)));
}
TEST_F(MpiFailures, ACrashIsALoss) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("abort", Code::kUnavailable, HasSubstr("lost rank 1"));
}
TEST_F(MpiFailures, WhenRankZeroIsLostRankOneSpeaks) {
  const Outcome outcome = ExpectFailure(
      "kill_first", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 0: its process (process "), HasSubstr("rank 1, which is in "), HasSubstr(kCall)));
  EXPECT_THAT(outcome.results, testing::ElementsAre("", Partial(1), ""));
}

// ---- A rank hangs ----

TEST_F(MpiFailures, AHangTimesOutAndNamesWhoIsMissing) {
  ExpectFailure(
      "hang", Code::kDeadlineExceeded,
      AllOf(HasSubstr(StrCat(
          kCall,
          "2 of group world has waited 3 s (fabric.timeout_s) for rank 1, which is computing; its last call was ",
          kCall, "1 of group world"))));
}
TEST_F(MpiFailures, AStoppedProcessDoesNotAnswer) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("stop", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2")), HasSubstr("for rank 1, which does not answer")));
}
TEST_F(MpiFailures, ADeadlockShowsBothSides) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("deadlock", Code::kDeadlineExceeded,
                AllOf(HasSubstr("send of f32[1048576] to rank 0, tag 3 (4194304 bytes), message 1 of group world"),
                      HasSubstr("send of f32[1048576] to rank 1, tag 3")),
                2);
}
TEST_F(MpiFailures, ASplitThatNotAllMake) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("split", Code::kDeadlineExceeded,
                testing::AnyOf(HasSubstr("split 1 of group world"), HasSubstr(kCall)));
}
TEST_F(MpiFailures, ReturningWhileOthersWait) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("return_early", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2 of group world has waited 3 s")),
                      HasSubstr("for rank 1, whose function has returned")));
}

// ---- Ranks call different collectives ----

TEST_F(MpiFailures, MismatchesAreNamed) {
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
TEST_F(MpiFailures, MismatchOfRoot) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("root", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 1"), HasSubstr("rank 0 calls broadcast of f32[4] from root 0"),
                      HasSubstr("from root 1")));
}
TEST_F(MpiFailures, MismatchOfCountsInAllToAllV) {
  ExpectFailure("all_to_all_v", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 0 calls all_to_all_v sending 1 elements to rank 1"),
                      HasSubstr("rank 1 calls all_to_all_v expecting 3 elements from rank 0")));
}
TEST_F(MpiFailures, ACollectiveTooManyIsFoundAtTheEnd) {
  if (!Full()) GTEST_SKIP() << kWithFull;
  ExpectFailure("extra", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes)"),
                      HasSubstr("calls nothing more")));
}
TEST_F(MpiFailures, MessagesOfOtherSizes) {
  ExpectFailure("message_too_short", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"), HasSubstr("a message of 36 bytes"),
                      HasSubstr("40 were expected")));
  if (Full())
    ExpectFailure(
        "message_too_long", Code::kInvalidArgument,
        AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"), HasSubstr("more data arrived than expected")));
}
TEST_F(MpiFailures, SubGroupsAreNamedWithTheirRanks) {
  ExpectFailure(
      "sub_group", Code::kInvalidArgument,
      AllOf(HasSubstr("collective mismatch in group half (ranks 0, 2), collective 1"), HasSubstr("rank 2 calls")), 4);
}

// ---- From outside ----

TEST_F(MpiFailures, AnInterruptOfTheLauncherIsReported) {
  Job job;
  const Outcome outcome = job.Run("forever", 3, true);
  EXPECT_EQ(outcome.code, static_cast<int>(Code::kCancelled)) << outcome.output;
  EXPECT_EQ(outcome.results.size(), 3u);
  EXPECT_NE(outcome.exit_status, 0);
  EXPECT_EQ(job.LeftBehind(), "");
}

}  // namespace failures_test
}  // namespace twofold
