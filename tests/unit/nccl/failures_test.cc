// How a NCCL run of mpirun ends when a rank fails: every process ends in time, the cause is named, nothing is left
// behind. Each case is a job of its own (tests/unit/mpi/scenario.cc), of a GPU a rank.
// tests/gpu/cuda_nccl_failures_test.cc has more, of processes that variables start; here is what mpirun has a part in,
// and what is NCCL's own: messages, which it matches by their order.
#include <string>
#include <vector>

#include "backends/host/cuda.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/mpi/job.h"

namespace twofold {
namespace failures_test {

using testing::AllOf;
using testing::HasSubstr;
using Code = absl::StatusCode;

constexpr int kMostRanks = 3;
class NcclFailures : public testing::Test {
 protected:
  void SetUp() override {
    std::string why = FindBackend("nccl")->why_not();
    if (why.empty()) why = host::WhyNoCuda();
    if (why.empty() && host::GpusHere() < kMostRanks)
      why = StrCat("there are ", host::GpusHere(), " and ", kMostRanks, " are needed");
    ASSERT_TRUE(why.empty() || !host::GpusAreEmulated()) << why;
    if (!why.empty()) GTEST_SKIP() << "skipped without a GPU for each rank: " << why;
  }
  Outcome ExpectFailure(const std::string& scenario, Code code, testing::Matcher<std::string> message,
                        int ranks = kMostRanks) {
    Job job("nccl");
    const Outcome outcome = job.Run(scenario, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << scenario << ": " << outcome.output;
    EXPECT_THAT(outcome.message, message) << scenario << ": " << outcome.output;
    EXPECT_NE(outcome.exit_status, 0) << scenario;
    EXPECT_EQ(job.LeftBehind(), "") << scenario;
    return outcome;
  }
};

constexpr char kCall[] = "all_reduce(sum) of f32[10] (40 bytes), collective ";

// Whether a rank is told in a call, where it is stuck, or between two is chance.
auto Partial(int rank) { return testing::AnyOf(StrCat("snapshot of ", rank), StrCat("part of ", rank)); }

TEST_F(NcclFailures, NoneEndsWell) {
  for (const char* scenario : {"well", "well_in_flight"}) {
    Job job("nccl");
    const Outcome outcome = job.Run(scenario, kMostRanks);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.results, testing::ElementsAre("whole of 0", "whole of 1", "whole of 2"));
    EXPECT_EQ(job.LeftBehind(), "");
  }
}

// ---- A rank dies ----

TEST_F(NcclFailures, AnExceptionBesideUnfinishedWork) {
  ExpectFailure("throw_in_flight", Code::kInternal, "rank 1: std::logic_error: while in flight");
}
TEST_F(NcclFailures, AKilledRankIsNamedWithWhatTheOthersWereIn) {
  const Outcome outcome = ExpectFailure(
      "kill", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 1: its process (process "), HasSubstr("has ended"), HasSubstr("rank 0, which is in "),
            HasSubstr("rank 2, which is in "), HasSubstr(StrCat(kCall, "2 of group world"))));
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "", Partial(2)));
}

// ---- A rank hangs ----

TEST_F(NcclFailures, AReceiveFromAnySourceThatNobodySendsTo) {
  ExpectFailure("any_source_of_nobody", Code::kDeadlineExceeded,
                testing::AnyOf(HasSubstr("recv of f32[10] from any rank"), HasSubstr(kCall)));
}
TEST_F(NcclFailures, ReturningWhileOthersWait) {
  ExpectFailure("return_early", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2 of group world has waited 3 s")),
                      HasSubstr("for rank 1, whose function has returned")));
}

// ---- Ranks call differently ----

TEST_F(NcclFailures, MessagesOfOtherSizesOrTags) {
  constexpr char kWhere[] =
      "collective mismatch in group world, from rank 0 to rank 1, message 1: rank 0 calls a message of ";
  ExpectFailure("message_too_short", Code::kInvalidArgument,
                AllOf(HasSubstr(StrCat(kWhere, "36 bytes with tag 0")),
                      HasSubstr("rank 1 calls a message of 40 bytes with tag 0")));
  ExpectFailure("message_tag", Code::kInvalidArgument,
                AllOf(HasSubstr(StrCat(kWhere, "40 bytes with tag 3")),
                      HasSubstr("rank 1 calls a message of 40 bytes with tag 4")));
}

}  // namespace failures_test
}  // namespace twofold
