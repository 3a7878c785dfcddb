#include "core/base/check.h"

#include "core/base/errors.h"
#include "gtest/gtest.h"

namespace twofold {
namespace check_test {

TEST(CheckDeathTest, PrintsTheExpressionAndBothOperands) {
  const int seven = 7;
  EXPECT_DEATH(TWOFOLD_CHECK_EQ(seven, 8), "seven == 8 \\(7 against 8\\)");
  EXPECT_DEATH(TWOFOLD_CHECK_LT(seven, 7), "seven < 7 \\(7 against 7\\)");
  EXPECT_DEATH(TWOFOLD_CHECK(seven == 6, "it is a test"), "seven == 6: it is a test");
}

TEST(Check, PassesWhatHoldsAndEvaluatesOnce) {
  int calls = 0;
  auto next = [&calls] { return ++calls; };
  TWOFOLD_CHECK_EQ(next(), 1);
  TWOFOLD_CHECK_GE(next(), 2);
  EXPECT_EQ(calls, 2);
}

TEST(Errors, EveryKindSurvivesTheWayThroughAStatus) {
  using Kind = RankFailure::Kind;
  for (Kind kind : {Kind::kPeerLost, Kind::kCollectiveMismatch, Kind::kOutOfMemory, Kind::kTimedOut, Kind::kDeadlock,
                    Kind::kInterrupted, Kind::kOther, Kind::kRunOver}) {
    const absl::Status status = ToStatus(RankFailure(kind, 3, "rank 3: why"));
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.message(), "rank 3: why");
    EXPECT_EQ(FailureKind(status), kind);
    try {
      ThrowFailure(kind, 3, "rank 3: why");
    } catch (const RankFailure& failure) {
      EXPECT_EQ(failure.kind(), kind);
    }
  }
  EXPECT_THROW(ThrowFailure(Kind::kRunOver, 3, "why"), RunOver);
}

}  // namespace check_test
}  // namespace twofold
