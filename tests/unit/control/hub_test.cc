#include "backends/control/hub.h"

#include <limits>
#include <map>

#include "absl/status/status.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::control {
namespace hub_test {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Three processes; what the hub tells them is kept.
class HubTest : public testing::Test {
 protected:
  HubTest() {
    for (int r = 0; r < 3; ++r) hub_.Connected(r, "process " + std::to_string(r));
  }
  static ToHub In(uint64_t run) {
    ToHub m;
    m.set_run(run);
    return m;
  }
  static Point At(uint64_t sequence, uint64_t digest, uint64_t balance = 0) {
    Point p;
    p.set_group(1);
    p.set_sequence(sequence);
    p.set_digest(digest);
    p.set_balance(balance);
    p.set_ranks(3);
    return p;
  }
  void Begin(uint64_t run, int world_size, double timeout_s, bool elastic = false) {
    control::Begin begin;
    begin.set_world_size(world_size);
    begin.set_timeout_s(timeout_s);
    begin.set_elastic(elastic);
    hub_.Begin(run, begin, now_);
  }
  std::vector<std::string> Results() {
    const control::Results results = hub_.TakeResults();
    return {results.results().begin(), results.results().end()};
  }
  void Finish(int rank, uint64_t run, Point end = At(7, 70)) {
    ToHub m = In(run);
    m.mutable_finished()->set_result("whole " + std::to_string(rank));
    *m.mutable_finished()->add_points() = end;
    hub_.Hear(rank, m, now_);
  }
  void Report(int rank, Point point) {
    ToHub m = In(1);
    *m.mutable_progress()->add_points() = point;
    hub_.Hear(rank, m, now_);
  }
  void Answer(int rank) {
    ToHub m = In(1);
    m.mutable_answer()->set_doing("rank " + std::to_string(rank));
    hub_.Hear(rank, m, now_);
  }
  void HandIn(int rank) {
    ToHub m = In(1);
    m.mutable_partial()->set_result("part " + std::to_string(rank));
    hub_.Hear(rank, m, now_);
  }
  void Trouble(int rank, const std::string& message) {
    ToHub m = In(1);
    m.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kOther));
    m.mutable_trouble()->set_message(message);
    hub_.Hear(rank, m, now_);
  }
  int Queries() const {
    return static_cast<int>(
        std::count_if(told_.begin(), told_.end(), [](const auto& t) { return t.second.has_query(); }));
  }
  int Verdicts() const {
    return static_cast<int>(
        std::count_if(told_.begin(), told_.end(), [](const auto& t) { return t.second.has_verdict(); }));
  }

  Hub::Time now_{};
  std::vector<std::pair<int, FromHub>> told_;
  std::map<int, std::string> hung_up_;
  Hub hub_{3, 15, [this](int rank, const FromHub& m) { told_.emplace_back(rank, m); },
           [this](int rank, const absl::Status& why) { hung_up_[rank] = std::string(why.message()); }};
};

TEST_F(HubTest, AllFinishedIsFine) {
  Begin(1, 3, 60);
  for (int r = 0; r < 3; ++r) {
    EXPECT_FALSE(hub_.closed());
    Finish(r, 1);
  }
  EXPECT_TRUE(hub_.closed());
  EXPECT_EQ(Verdicts(), 3);
  EXPECT_EQ(hub_.verdict().code(), 0);
  EXPECT_THAT(Results(), testing::ElementsAre("whole 0", "whole 1", "whole 2"));
}

TEST_F(HubTest, ThoseThatStandByAreToldToo) {
  Begin(1, 2, 60);
  Finish(0, 1);
  Finish(1, 1);
  EXPECT_TRUE(hub_.closed());
  EXPECT_EQ(Verdicts(), 3);
  EXPECT_EQ(Results().size(), 2u);
}

TEST_F(HubTest, WhoIsAheadOfTheHubIsHeardLater) {
  Finish(1, 1);
  Begin(1, 3, 60);
  Finish(0, 1);
  Finish(2, 1);
  EXPECT_TRUE(hub_.closed());
  Finish(2, 2);
  Begin(2, 3, 60);
  Finish(0, 2);
  EXPECT_FALSE(hub_.closed());
  Finish(1, 2);
  EXPECT_TRUE(hub_.closed());
}

TEST_F(HubTest, DifferentDigestsAtOnePointAreTrouble) {
  Begin(1, 3, 60);
  Report(0, At(5, 50));
  Report(1, At(6, 60));
  EXPECT_EQ(Queries(), 0);
  Report(2, At(5, 51));
  EXPECT_EQ(Queries(), 3);
}

TEST_F(HubTest, BalancesCountOnlyOnceAllHaveReported) {
  Begin(1, 3, 60);
  Report(0, At(5, 50, 3));
  Report(1, At(5, 50, 4));
  EXPECT_EQ(Queries(), 0);
  Report(2, At(5, 50, static_cast<uint64_t>(-7)));
  EXPECT_EQ(Queries(), 0);
  for (int r = 0; r < 3; ++r) Report(r, At(6, 60, 1));
  EXPECT_EQ(Queries(), 3);
}

TEST_F(HubTest, EndsAtDifferentPlacesAreTrouble) {
  Begin(1, 3, 60);
  Finish(0, 1, At(7, 70));
  Finish(1, 1, At(8, 80));
  EXPECT_EQ(Queries(), 3);
}

TEST_F(HubTest, ATroubleIsLookedIntoAndTold) {
  Begin(1, 3, 60);
  Trouble(1, "rank 1: injected");
  Trouble(2, "a consequence");
  EXPECT_EQ(Queries(), 3);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(Verdicts(), 0);
    Answer(r);
  }
  EXPECT_EQ(Verdicts(), 3);
  EXPECT_EQ(hub_.verdict().message(), "rank 1: injected");
  for (int r = 0; r < 3; ++r) {
    EXPECT_FALSE(hub_.closed());
    HandIn(r);
  }
  EXPECT_TRUE(hub_.closed());
  EXPECT_THAT(Results(), testing::ElementsAre("part 0", "part 1", "part 2"));
}

TEST_F(HubTest, WhoDoesNotAnswerIsNotWaitedForForEver) {
  Begin(1, 3, 60);
  Trouble(1, "rank 1: injected");
  Answer(0);
  Answer(1);
  hub_.Tick(now_ += milliseconds(900));
  EXPECT_EQ(Verdicts(), 0);
  hub_.Tick(now_ += milliseconds(200));
  EXPECT_EQ(Verdicts(), 3);
  HandIn(0);
  HandIn(1);
  EXPECT_FALSE(hub_.closed());
  hub_.Tick(now_ += milliseconds(5000));
  EXPECT_TRUE(hub_.closed());
}

TEST_F(HubTest, ALostProcessIsNamedAndNeitherAskedNorWaitedFor) {
  Begin(1, 3, 60);
  hub_.Lose(2, now_);
  EXPECT_EQ(Queries(), 2);
  Answer(0);
  Answer(1);
  EXPECT_EQ(Verdicts(), 2);
  EXPECT_TRUE(hub_.verdict().lost());
  EXPECT_THAT(hub_.verdict().message(), HasSubstr("lost rank 2: its process (process 2) has ended"));
  HandIn(0);
  HandIn(1);
  EXPECT_TRUE(hub_.closed());
}

// Who interrupts waits for the end of the run: 2 s in all, with the report.
TEST_F(HubTest, AnInterruptLeavesLittleTimeToHandIn) {
  Begin(1, 3, 60);
  ToHub m = In(1);
  m.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kInterrupted));
  hub_.Hear(1, m, now_);
  for (int r = 0; r < 3; ++r) Answer(r);
  EXPECT_LE(Hub::GraceOf(hub_.verdict()), milliseconds(700));
  HandIn(0);
  EXPECT_FALSE(hub_.closed());
  hub_.Tick(now_ += milliseconds(1000));
  EXPECT_TRUE(hub_.closed());
}

// A rank that dies of what another has reported: the loss is the cause.
TEST_F(HubTest, ALossDuringTheInquestCounts) {
  Begin(1, 3, 60);
  Trouble(0, "rank 0: MPI says something odd");
  Answer(0);
  Answer(1);
  EXPECT_EQ(Verdicts(), 0);
  hub_.Lose(2, now_);
  EXPECT_EQ(Verdicts(), 2);
  EXPECT_THAT(hub_.verdict().message(), HasSubstr("lost rank 2"));
}

TEST_F(HubTest, WhoWasLostBeforeTheRunEndsIt) {
  hub_.Lose(1, now_);
  Begin(1, 3, 60);
  EXPECT_EQ(Queries(), 2);
}

TEST_F(HubTest, ARankThatIsSilentIsMissed) {
  Begin(1, 3, 60);
  hub_.Tick(now_ += milliseconds(59000));
  for (int r : {0, 2}) hub_.Hear(r, {}, now_);  // rank 0's own process need not, rank 1 does not
  EXPECT_EQ(Queries(), 0);
  hub_.Tick(now_ += milliseconds(1000));
  EXPECT_EQ(Queries(), 2);
  Answer(0);
  Answer(2);
  EXPECT_THAT(hung_up_[1], HasSubstr("the run went on without this process"));
  EXPECT_EQ(hub_.verdict().rank(), 1);
  EXPECT_EQ(hub_.verdict().message(),
            "lost rank 1: its process (process 1) has sent no heartbeat for 60 s; it is stopped, or its host hangs or "
            "is unreachable. The others: rank 0; rank 2");
}

TEST_F(HubTest, NobodyIsMissedSoon) {
  Begin(1, 3, 0.1);
  hub_.Tick(now_ += milliseconds(14900));
  EXPECT_EQ(Queries(), 0);
  hub_.Tick(now_ += milliseconds(200));
  EXPECT_EQ(Queries(), 2);
}

TEST_F(HubTest, WhoHasFinishedMayBeSilent) {
  Begin(1, 3, 60);
  Finish(1, 1);
  hub_.Tick(now_ += milliseconds(50000));
  for (int r : {0, 2}) hub_.Hear(r, {}, now_);
  hub_.Tick(now_ += milliseconds(50000));
  EXPECT_EQ(Queries(), 0);
}

// ... which no number at all is not, either.
TEST_F(HubTest, ATimeOutThatIsNoNumberMakesNobodyMissedSoon) {
  Begin(1, 3, std::numeric_limits<double>::quiet_NaN());
  hub_.Tick(now_ += milliseconds(14900));
  EXPECT_EQ(Queries(), 0);
  hub_.Tick(now_ += milliseconds(200));
  EXPECT_EQ(Queries(), 2);
}

// Between runs, too: no message is taken for one of a run.
TEST_F(HubTest, SignsOfLifeAreNoMessagesOfARun) {
  hub_.Hear(1, {}, now_);
  Begin(1, 1, 60);
  hub_.Hear(2, {}, now_);  // which stands by
  Finish(0, 1, {});
  EXPECT_TRUE(hub_.closed());
}

// Whatever it says of itself: who hears it looks it up in what it has by rank.
TEST_F(HubTest, WhatIsPassedOnIsFromWhoeverSentIt) {
  Begin(1, 3, 60);
  for (const int claimed : {2, 3, -1, 1 << 30}) {
    ToHub m = In(1);
    m.mutable_relayed()->set_from(claimed);
    m.mutable_relayed()->set_to(2);
    hub_.Hear(1, m, now_);
    ASSERT_FALSE(told_.empty());
    EXPECT_EQ(told_.back().first, 2);
    EXPECT_EQ(told_.back().second.relayed().from(), 1);
  }
}

TEST_F(HubTest, AHostThatIsCutOffIsNamedSo) {
  Begin(1, 3, 60);
  hub_.Lose(2, now_, "is unreachable: its host does not answer (Connection timed out)");
  Answer(0);
  Answer(1);
  EXPECT_THAT(
      hub_.verdict().message(),
      HasSubstr(
          "lost rank 2: its process (process 2) is unreachable: its host does not answer (Connection timed out)"));
}

TEST_F(HubTest, AProcessThatStoodByCanBeLostToo) {
  Begin(1, 2, 60);
  hub_.Lose(2, now_);
  Answer(0);
  Answer(1);
  EXPECT_THAT(hub_.verdict().message(), HasSubstr("lost process 2, process 2 of 3, which was on standby"));
}

}  // namespace hub_test
}  // namespace twofold::control
