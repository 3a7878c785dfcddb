// Generations of an elastic run's members, on the whole control plane without a network, by a clock that the test
// moves.
#include "backends/control/generations.h"

#include <gmock/gmock.h>

#include <map>

#include "absl/strings/str_join.h"
#include "backends/control/plane.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace generations_test {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Processes 0 to size - 1 have met; a connection's number is the member's and 100.
class GenerationsTest : public ::testing::Test {
 protected:
  void Meet(int size) {
    plane_ = std::make_unique<Plane>(
        Plane::Options{.size = size, .timeout_s = 30, .place = "node0:29500", .process = "process 100 on node0"},
        [this](Plane::Connection to, const FromHub& message) { told_[static_cast<int>(to) - 100].push_back(message); },
        [this](Plane::Connection from, const absl::Status& why) {
          hung_up_[static_cast<int>(from) - 100] = std::string(why.message());
        },
        now_);
    for (int m = 0; m < size; ++m) Come(m, size);
  }
  void Come(int member, int size, bool newcomer = false) {
    ToHub message;
    Hello& hello = *message.mutable_hello();
    hello.set_version(kVersion);
    hello.set_rank(newcomer ? 0 : member);
    hello.set_size(size);
    hello.set_newcomer(newcomer);
    hello.set_host("node0");
    hello.set_machine("node0");
    hello.set_process(100 + member);
    hello.set_patience_s(1000);
    EXPECT_TRUE(plane_->Hear(Of(member), message, now_).ok());
  }
  void Begin(int size, bool elastic = true) {
    ToHub message = In(0, 1);
    message.mutable_begin()->set_world_size(size);
    message.mutable_begin()->set_timeout_s(60);
    message.mutable_begin()->set_elastic(elastic);
    told_.clear();
    Hear(0, message);
  }
  void Start(int size) {
    Meet(size);
    Begin(size);
  }
  static ToHub In(int generation, uint64_t run = 1) {
    ToHub message;
    message.set_run(run);
    message.set_generation(generation);
    return message;
  }
  void Hear(int member, const ToHub& message) { EXPECT_TRUE(plane_->Hear(Of(member), message, now_).ok()); }
  void Lose(int member) { plane_->Lose(Of(member), now_); }
  void Ask(int member, int generation, int least = 1, double patience_s = 10) {
    ToHub message = In(generation);
    message.mutable_reform()->set_generation(generation);
    message.mutable_reform()->set_min_members(least);
    message.mutable_reform()->set_patience_s(patience_s);
    Hear(member, message);
  }
  void Depart(int member, int generation) {
    ToHub message = In(generation);
    message.mutable_depart()->set_result(StrCat("part ", member));
    Hear(member, message);
  }
  void Finish(int member, int generation) {
    ToHub message = In(generation);
    message.mutable_finished()->set_result(StrCat("whole ", member));
    Hear(member, message);
  }
  void Trouble(int member, int generation, RankFailure::Kind kind) {
    ToHub message = In(generation);
    message.mutable_trouble()->set_kind(static_cast<int>(kind));
    message.mutable_trouble()->set_message(StrCat("rank ", member, ": injected"));
    Hear(member, message);
  }
  void Answer(std::vector<int> members, int generation) {
    for (const int m : members) {
      ToHub message = In(generation);
      message.mutable_answer()->set_doing(StrCat("rank ", m));
      Hear(m, message);
    }
  }
  // All members but those that are lost or stopped give signs of life meanwhile.
  void Pass(double seconds, std::vector<int> alive) {
    for (double passed = 0; passed < seconds; passed += 1) {
      now_ += milliseconds(1000);
      for (const int m : alive) Hear(m, {});
      plane_->Tick(now_);
    }
  }
  static Plane::Connection Of(int member) { return static_cast<Plane::Connection>(100 + member); }

  // What a member was told last of each kind; "" if nothing.
  std::string Formed(int member) {
    std::string text;
    for (const FromHub& m : told_[member])
      if (m.has_formed()) text = StrCat(m.formed().number(), ": ", absl::StrJoin(m.formed().members(), " "));
    return text;
  }
  std::string Broken(int member) {
    std::string text;
    for (const FromHub& m : told_[member])
      if (m.has_broken()) text = StrCat(m.broken().member(), " ", m.broken().message());
    return text;
  }
  std::string Verdict(int member) {
    std::string text;
    for (const FromHub& m : told_[member])
      if (m.has_verdict()) text = StrCat(m.verdict().code(), " ", m.verdict().message());
    return text;
  }
  std::string Refused(int member) {
    std::string text;
    for (const FromHub& m : told_[member])
      if (m.has_refused()) text = m.refused().message();
    return text;
  }
  int Waiting(int member) { return told_[member].empty() ? -1 : told_[member].back().waiting(); }
  std::string Results() {
    plane_->Tick(now_);
    for (const FromHub& m : told_[0])
      if (m.has_results()) return absl::StrJoin(m.results().results(), ",");
    return "none";
  }

  Plane::Time now_{std::chrono::seconds(1000)};
  std::map<int, std::vector<FromHub>> told_;
  std::map<int, std::string> hung_up_;
  std::unique_ptr<Plane> plane_;
};

TEST_F(GenerationsTest, ALossBreaksTheGenerationAndTheOthersGoOn) {
  Start(4);
  Lose(1);
  Answer({0, 2, 3}, 1);
  for (const int m : {0, 2, 3})
    EXPECT_THAT(Broken(m), HasSubstr("1 lost rank 1: its process (process 101 on node0) has ended")) << m;
  for (const int m : {3, 0}) Ask(m, 1);
  EXPECT_EQ(Formed(0), "");
  Ask(2, 1);
  for (const int m : {0, 2, 3}) EXPECT_EQ(Formed(m), "2: 0 2 3") << m;
  told_.clear();
  Lose(2);  // which is rank 1 now
  Answer({0, 3}, 2);
  EXPECT_THAT(Broken(3), HasSubstr("2 generation 1: lost rank 2: its process (process 102 on node0)"));
  Ask(0, 2);
  Ask(3, 2);
  EXPECT_EQ(Formed(3), "3: 0 3");
  Finish(0, 3);
  Finish(3, 3);
  EXPECT_EQ(Verdict(0), "0 ");
  EXPECT_EQ(Results(), "whole 0,,,whole 3");
}

TEST_F(GenerationsTest, ASilentMemberIsMissedAndHungUpOn) {
  Start(3);
  Pass(61, {0, 1});
  Answer({0, 1}, 1);
  EXPECT_THAT(Broken(0), HasSubstr("lost rank 2: its process (process 102 on node0) has sent no heartbeat for 60 s"));
  EXPECT_THAT(hung_up_[2], HasSubstr("the run went on without this process"));
  Ask(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(1), "2: 0 1");
  Ask(2, 1);  // it comes back
  EXPECT_EQ(Formed(2), "");
}

TEST_F(GenerationsTest, AHostThatIsCutOffIsNamedSo) {
  Start(2);
  now_ += std::chrono::seconds(20);
  Lose(1);
  Answer({0}, 1);
  EXPECT_THAT(Broken(0), HasSubstr("lost rank 1: its process (process 101 on node0) is unreachable: its host does not "
                                   "answer (no heartbeat for 20 s, then the connection broke)"));
}

TEST_F(GenerationsTest, WhichFailuresBreakAGenerationAndWhichEndTheRun) {
  using Kind = RankFailure::Kind;
  for (const Kind kind : {Kind::kPeerLost, Kind::kTimedOut, Kind::kOther}) {
    Start(2);
    Trouble(1, 1, kind);
    Answer({0, 1}, 1);
    EXPECT_THAT(Broken(0), HasSubstr("1 rank 1: injected"));
    EXPECT_EQ(Verdict(0), "");
  }
  for (const Kind kind : {Kind::kCollectiveMismatch, Kind::kOutOfMemory, Kind::kInterrupted}) {
    Start(2);
    Trouble(1, 1, kind);
    Answer({0, 1}, 1);
    EXPECT_EQ(Broken(0), "");
    EXPECT_THAT(Verdict(0), HasSubstr("rank 1: injected"));
  }
}

// One that knows that nobody can go on ends the run at once: without witnesses, and also while others ask for the next
// generation or are asked who is lost.
TEST_F(GenerationsTest, ARunThatIsOverEndsAtOnceWithItsReason) {
  const auto expect_end = [this] {
    Trouble(1, 1, RankFailure::Kind::kRunOver);
    for (const int m : {0, 1, 3}) EXPECT_EQ(Verdict(m), "10 rank 1: injected") << m;
    Ask(0, 1), Ask(1, 1), Ask(3, 1);
    EXPECT_EQ(Formed(0), "");
  };
  Start(4);
  expect_end();
  Start(4);
  Lose(2);
  expect_end();  // before all have answered
  Start(4);
  Lose(2);
  Answer({0, 1, 3}, 1);
  Ask(0, 1), Ask(3, 1);
  expect_end();
  Start(4);
  Lose(2);
  Answer({0, 1, 3}, 1);
  for (const int m : {0, 1, 3}) Ask(m, 1);
  Trouble(1, 1, RankFailure::Kind::kRunOver);  // of the generation before
  EXPECT_EQ(Verdict(0), "");
  Trouble(1, 2, RankFailure::Kind::kRunOver);
  EXPECT_EQ(Verdict(3), "10 generation 1: rank 1: injected");
}

TEST_F(GenerationsTest, OneThatLeavesInOrderIsNotWaitedFor) {
  Start(3);
  Depart(2, 1);
  EXPECT_THAT(Broken(0), HasSubstr("2 rank 2 (process 102 on node0) has left the run in order"));
  EXPECT_EQ(Broken(2), "");
  Lose(2);  // its process ends
  Ask(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(1), "2: 0 1");
  Finish(0, 2);
  Finish(1, 2);
  EXPECT_EQ(Results(), "whole 0,whole 1,part 2");
}

TEST_F(GenerationsTest, RankZeroCannotLeave) {
  Start(2);
  Depart(0, 1);
  EXPECT_THAT(Refused(0), HasSubstr("holds the control plane"));
  EXPECT_EQ(Broken(1), "");
}

TEST_F(GenerationsTest, ANewcomerWaitsAndGetsIn) {
  Start(2);
  Come(2, 0, true);
  ASSERT_FALSE(told_[2].empty());
  EXPECT_EQ(told_[2].front().welcome().member(), 2);
  EXPECT_EQ(Waiting(0), 1);
  EXPECT_EQ(Waiting(1), 1);
  Ask(1, 1);
  Come(3, 0, true);
  Ask(0, 1);
  for (int m = 0; m < 4; ++m) EXPECT_EQ(Formed(m), "2: 0 1 2 3") << m;
  Lose(2);
  Answer({0, 1, 3}, 2);
  EXPECT_EQ(Waiting(0), 0);
  for (const int m : {0, 1, 3}) Ask(m, 2);
  EXPECT_EQ(Formed(3), "3: 0 1 3");
}

TEST_F(GenerationsTest, ANewcomerThatGoesAgainIsForgotten) {
  Start(2);
  Come(2, 0, true);
  Lose(2);
  EXPECT_EQ(Waiting(0), 0);
  Ask(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(0), "2: 0 1");
}

TEST_F(GenerationsTest, ANewcomerThatComesBeforeTheRunWaitsForIt) {
  Meet(2);
  Come(2, 0, true);
  Begin(2);
  EXPECT_EQ(Waiting(0), 1);
  EXPECT_EQ(Waiting(1), 1);
  Ask(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(2), "2: 0 1 2");
}

TEST_F(GenerationsTest, ANewcomerHasNoPlaceInARunThatIsNotElastic) {
  Meet(2);
  Come(2, 0, true);
  Begin(2, false);
  EXPECT_THAT(hung_up_[2], HasSubstr("a run that is not elastic began"));
  ToHub hello;
  hello.mutable_hello()->set_version(kVersion);
  hello.mutable_hello()->set_newcomer(true);
  const absl::Status refused = plane_->Hear(Of(3), hello, now_);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the run in progress is not elastic"));
}

TEST_F(GenerationsTest, ANewcomerIsToldWhenTheRunEndsWithoutIt) {
  Start(2);
  Come(2, 0, true);
  Finish(0, 1);
  Finish(1, 1);
  EXPECT_EQ(Verdict(0), "0 ");
  EXPECT_THAT(hung_up_[2], HasSubstr("before this process was admitted"));
}

TEST_F(GenerationsTest, OneThatIsLateIsLeftBehind) {
  Start(3);
  Ask(0, 1, 2, 10);
  Ask(1, 1, 2, 100);
  Pass(9, {0, 1, 2});
  EXPECT_EQ(Formed(0), "");
  Pass(1, {0, 1, 2});
  EXPECT_EQ(Formed(0), "2: 0 1");
  EXPECT_THAT(hung_up_[2],
              HasSubstr("generation 1 began without this process, which had not asked for it within 10 s"));
  EXPECT_EQ(Formed(2), "");
}

TEST_F(GenerationsTest, WithoutRankZeroThereIsNoNextGeneration) {
  Start(2);
  Ask(1, 1, 1, 10);
  Pass(10, {0, 1});
  EXPECT_THAT(Verdict(1),
              HasSubstr("rank 0 (process 100 on node0), whose process holds the control plane, did not ask"));
}

TEST_F(GenerationsTest, TooFewEndTheRunAndAreNamed) {
  Start(4);
  Lose(1);
  Answer({0, 2, 3}, 1);
  Ask(0, 1, 3, 10);
  Ask(3, 1, 3, 10);
  Pass(10, {0, 2, 3});
  EXPECT_EQ(Formed(0), "");
  EXPECT_THAT(Verdict(0),
              AllOf(HasSubstr("14 the next generation needs 3 members, but within 10 s only 2 asked for it"),
                    HasSubstr("rank 1 (process 101 on node0) has ended; rank 2 (process 102 on node0) did "
                              "not ask")));
}

TEST_F(GenerationsTest, NewcomersAreWaitedForIfThereAreTooFew) {
  Start(2);
  Lose(1);
  Answer({0}, 1);
  Ask(0, 1, 2, 10);
  Pass(9, {0});
  EXPECT_EQ(Formed(0), "");
  Come(2, 0, true);
  EXPECT_EQ(Formed(0), "2: 0 2");
  EXPECT_EQ(Formed(2), "2: 0 2");
}

TEST_F(GenerationsTest, ALiarIsRefusedAlone) {
  Start(3);
  Come(3, 0, true);
  told_.clear();
  Ask(2, 7);
  EXPECT_THAT(Refused(2), HasSubstr("member 2 asked for the generation after 6, but it is not a member of that one"));
  Ask(3, 1);
  EXPECT_THAT(Refused(3), HasSubstr("not a member"));
  EXPECT_EQ(Broken(0), "");
  Ask(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(0), "");
  Ask(2, 1);
  EXPECT_EQ(Formed(2), "2: 0 1 2 3");
}

TEST_F(GenerationsTest, OneThatHasFinishedIsNotWaitedFor) {
  Start(3);
  Finish(0, 1);
  Lose(2);
  Answer({0, 1}, 1);
  EXPECT_EQ(Broken(0), "");
  EXPECT_THAT(Broken(1), HasSubstr("lost rank 2"));
  Ask(1, 1);
  EXPECT_EQ(Formed(1), "2: 1");
  Finish(1, 2);
  EXPECT_EQ(Verdict(0), "0 ");
  EXPECT_EQ(Results(), "whole 0,whole 1,");
}

TEST_F(GenerationsTest, WithNobodyLeftTheRunIsOver) {
  Start(2);
  Finish(0, 1);
  Ask(1, 1);
  EXPECT_EQ(Formed(1), "2: 1");
  Lose(1);
  EXPECT_THAT(Verdict(0), HasSubstr("no member is left: generation 1: lost rank 1: its "
                                    "process (process 101 on node0)"));
}

TEST_F(GenerationsTest, MessagesOfAnEarlierGenerationAreForgotten) {
  Start(3);
  Lose(2);
  Answer({0, 1}, 1);
  Ask(0, 1);
  Ask(1, 1);
  told_.clear();
  Trouble(1, 1, RankFailure::Kind::kOther);
  ToHub relayed = In(1);
  relayed.mutable_relayed()->set_to(0);
  Hear(1, relayed);
  EXPECT_TRUE(told_.empty());
  relayed.set_generation(2);
  Hear(1, relayed);
  ASSERT_EQ(told_[0].size(), 1u);
  EXPECT_EQ(told_[0][0].relayed().from(), 1);
}

TEST_F(GenerationsTest, MembersOfAGenerationExchangeBytes) {
  Start(3);
  Lose(1);
  Answer({0, 2}, 1);
  Ask(0, 1);
  Ask(2, 1);
  told_.clear();
  auto give = [this](int member, int generation) {
    ToHub message;
    message.mutable_give()->set_number(1);
    message.mutable_give()->set_generation(generation);
    message.mutable_give()->set_bytes(StrCat("of ", member));
    Hear(member, message);
  };
  give(2, 2);
  give(0, 2);
  ASSERT_FALSE(told_[2].empty());
  EXPECT_EQ(absl::StrJoin(told_[2].back().taken().bytes(), ","), "of 0,of 2");
  give(0, 3);
  EXPECT_THAT(told_[0].back().taken().fault().message(), HasSubstr("not in generation 2"));
  ToHub second;
  second.mutable_give()->set_number(2);
  second.mutable_give()->set_generation(2);
  Hear(0, second);
  Lose(2);
  plane_->Tick(now_);
  std::string fault;
  for (const FromHub& m : told_[0])
    if (m.taken().has_fault()) fault = m.taken().fault().message();
  EXPECT_THAT(fault, HasSubstr("generation 1: lost rank 2 (process 102 on node0)"));
}

// Those who met exchange on as the first generation, which may break like any other.
TEST_F(GenerationsTest, AnExchangeOfTheFirstGenerationEndsWithItAndNotTheRun) {
  Start(3);
  ToHub give;
  give.mutable_give()->set_number(1);
  Hear(0, give);
  Lose(1);
  Answer({0, 2}, 1);
  ASSERT_FALSE(told_[0].empty());
  std::string fault;
  for (const int m : {0, 2}) {
    for (const FromHub& message : told_[m]) {
      EXPECT_FALSE(message.has_end()) << message.end().message();
      if (message.taken().has_fault()) fault = message.taken().fault().message();
    }
  }
  EXPECT_THAT(fault, HasSubstr("generation 0: lost rank 1 (process 101 on node0)"));
  EXPECT_EQ(Verdict(0), "");
}

TEST_F(GenerationsTest, AnExchangeThatNobodyWaitsForAnyMoreEndsWithItsGeneration) {
  Start(2);
  ToHub give;
  give.mutable_give()->set_number(1);
  Hear(0, give);
  Trouble(1, 1, RankFailure::Kind::kOther);
  Answer({0, 1}, 1);
  Ask(0, 1);
  Ask(1, 1);
  told_.clear();
  Pass(40, {0, 1});  // longer than an exchange may take
  std::vector<std::string> faults;
  for (const FromHub& message : told_[1]) {
    EXPECT_FALSE(message.has_end()) << message.end().message();
    if (message.taken().has_fault()) faults.push_back(message.taken().fault().message());
  }
  EXPECT_THAT(faults, ElementsAre(HasSubstr("generation 0: it ended while members waited in exchange 1")));
}

}  // namespace generations_test
}  // namespace twofold::control
