// The control plane without a network: every way in which a meeting can end, by a clock that the test moves.
#include "backends/control/plane.h"

#include <gmock/gmock.h>

#include <limits>

#include "core/base/strings.h"

namespace twofold::control {
namespace plane_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class PlaneTest : public ::testing::Test {
 protected:
  static constexpr double kTimeOut = 30;

  void Open(int size) {
    plane_ = std::make_unique<Plane>(
        Plane::Options{.size = size,
                       .timeout_s = timeout_s_,
                       .place = "node0:29500",
                       .process = "process 100 on node0",
                       .least_silence_s = silence_s_},
        [this](Plane::Connection to, const FromHub& message) { sent_[to].push_back(message); },
        [this](Plane::Connection to, const absl::Status& why) { hung_up_[to] = StrCat(std::string(why.message())); },
        now_);
  }
  // Ranks 2 n and 2 n + 1 are on node n; a connection's number is its rank's and 100, a process's likewise.
  static Hello HelloOf(int rank, int size) {
    Hello hello;
    hello.set_version(kVersion);
    hello.set_rank(rank);
    hello.set_size(size);
    hello.set_host(StrCat("node", rank / 2));
    hello.set_machine(hello.host());
    hello.set_process(100 + rank);
    hello.set_patience_s(1000);
    return hello;
  }
  absl::Status Come(const Hello& hello, Plane::Connection connection) {
    ToHub message;
    *message.mutable_hello() = hello;
    return plane_->Hear(connection, message, now_);
  }
  void Come(int rank, int size) { EXPECT_TRUE(Come(HelloOf(rank, size), Of(rank)).ok()); }
  void Meet(int size) {
    Open(size);
    for (int r = 0; r < size; ++r) Come(r, size);
    sent_.clear();
  }
  void Give(int rank, uint64_t number, const std::string& bytes, bool broadcast = false) {
    ToHub message;
    message.mutable_give()->set_number(number);
    message.mutable_give()->set_bytes(bytes);
    message.mutable_give()->set_broadcast(broadcast);
    EXPECT_TRUE(plane_->Hear(Of(rank), message, now_).ok());
  }
  void Leave(int rank) {
    ToHub message;
    message.mutable_leave();
    EXPECT_TRUE(plane_->Hear(Of(rank), message, now_).ok());
    plane_->Lose(Of(rank), now_);
  }
  void Pass(double seconds) {
    now_ += std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
    plane_->Tick(now_);
  }
  static Plane::Connection Of(int rank) { return static_cast<Plane::Connection>(100 + rank); }

  // How it ended for a rank; empty: it has not.
  std::string EndOf(Plane::Connection connection) {
    std::string end;
    for (const FromHub& message : sent_[connection]) {
      if (message.has_end()) end = StrCat(message.end().code(), " ", message.end().message());
    }
    return end;
  }
  std::vector<std::string> TakenBy(int rank) {
    for (const FromHub& message : sent_[Of(rank)]) {
      if (message.has_taken()) return {message.taken().bytes().begin(), message.taken().bytes().end()};
    }
    return {"nothing"};
  }

  double timeout_s_ = kTimeOut, silence_s_ = 1000;
  Plane::Time now_{std::chrono::seconds(1000)};
  std::map<Plane::Connection, std::vector<FromHub>> sent_;
  std::map<Plane::Connection, std::string> hung_up_;
  std::unique_ptr<Plane> plane_;
};

TEST_F(PlaneTest, SeatsAllOnceTheLastHasCome) {
  Open(3);
  Come(2, 3);
  Come(0, 3);
  Pass(29);
  ASSERT_EQ(sent_[Of(0)].size(), 1u);
  EXPECT_EQ(sent_[Of(0)][0].welcome().hub(), "process 100 on node0");
  Come(1, 3);
  const int local[] = {0, 1, 0}, here[] = {2, 2, 1};
  for (int r = 0; r < 3; ++r) {
    ASSERT_EQ(sent_[Of(r)].size(), 2u) << r;
    EXPECT_EQ(sent_[Of(r)][1].seat().local_rank(), local[r]);
    EXPECT_EQ(sent_[Of(r)][1].seat().local_size(), here[r]);
  }
  Pass(1000);
  EXPECT_EQ(EndOf(Of(0)), "") << "the time-out was for coming";
}

TEST_F(PlaneTest, NamesWhoNeverCame) {
  Open(6);
  for (int r : {0, 1, 4}) Come(r, 6);
  plane_->RefusedStranger("ipv4:10.0.0.9:4711");
  Pass(29.9);
  EXPECT_EQ(EndOf(Of(0)), "");
  Pass(0.1);
  for (int r : {0, 1, 4}) {
    EXPECT_THAT(EndOf(Of(r)), AllOf(HasSubstr("4 fabric.rendezvous: ranks 2, 3, 5 of 6 did not reach the store at "
                                              "node0:29500 (rank 0, process 100 on node0) within 30 s"),
                                    HasSubstr("ranks 0, 1 on node0, rank 4 on node2"), HasSubstr("were refused"),
                                    HasSubstr("10.0.0.9")));
  }
  EXPECT_TRUE(Come(HelloOf(5, 6), 55).ok());
  EXPECT_EQ(EndOf(55), EndOf(Of(0))) << "whoever comes too late is told, too";
}

TEST_F(PlaneTest, WaitsNoLongerThanTheLeastPatient) {
  Open(2);
  Hello hello = HelloOf(1, 2);
  hello.set_patience_s(5);
  EXPECT_TRUE(Come(hello, Of(1)).ok());
  Pass(4.9);
  EXPECT_EQ(EndOf(Of(1)), "");
  Pass(0.2);
  EXPECT_THAT(EndOf(Of(1)), HasSubstr("rank 0 of 2 did not reach the store"));
}

TEST_F(PlaneTest, NamesWhoIsLostBeforeAllHaveCome) {
  Open(3);
  Come(0, 3);
  Come(2, 3);
  plane_->Lose(Of(2), now_);
  EXPECT_THAT(EndOf(Of(0)),
              AllOf(HasSubstr("14 fabric.rendezvous: lost rank 2 (process 102 on node1) before all ranks had joined"),
                    HasSubstr("Joined: rank 0 on node0")));
  EXPECT_TRUE(Come(HelloOf(1, 3), Of(1)).ok());
  EXPECT_EQ(EndOf(Of(1)), EndOf(Of(0)));
}

TEST_F(PlaneTest, NamesWhoLeavesBeforeAllHaveCome) {
  Open(2);
  Come(0, 2);
  ToHub message;
  message.mutable_leave();
  EXPECT_TRUE(plane_->Hear(Of(0), message, now_).ok());
  Come(1, 2);
  EXPECT_THAT(EndOf(Of(1)), HasSubstr("rank 0 (process 100 on node0) left before all ranks had joined"));
}

TEST_F(PlaneTest, NamesBothWhoComeAsOneRank) {
  Open(3);
  Come(0, 3);
  Come(1, 3);
  Hello second = HelloOf(1, 3);
  second.set_process(999);
  second.set_host("node7");
  EXPECT_TRUE(Come(second, 77).ok());
  const std::string why = "rank 1 joined twice: process 101 on node0, then process 999 on node7";
  for (Plane::Connection c : {Of(0), Of(1), Plane::Connection{77}}) EXPECT_THAT(EndOf(c), HasSubstr(why));
}

TEST_F(PlaneTest, RefusesWhoComesTwiceOnceAllHaveMetAndGoesOn) {
  Meet(2);
  const absl::Status refused = Come(HelloOf(1, 2), 77);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("rank 1 joined twice"));
  plane_->Lose(77, now_);
  Give(0, 1, "a");
  Give(1, 1, "b");
  EXPECT_THAT(TakenBy(0), ElementsAre("a", "b"));
}

TEST_F(PlaneTest, NamesWhoWasToldAnotherSize) {
  Open(4);
  Come(0, 4);
  Come(1, 3);
  for (int r : {0, 1}) {
    EXPECT_THAT(EndOf(Of(r)), HasSubstr("rank 1 (process 101 on node0) was told that there are 3 ranks, but rank 0 "
                                        "(process 100 on node0) was told that there are 4; WORLD_SIZE"));
  }
}

TEST_F(PlaneTest, NamesRanksThatThereAreNot) {
  for (int rank : {4, -1}) {
    sent_.clear();
    Open(4);
    Come(0, 4);
    Hello hello = HelloOf(1, 4);
    hello.set_rank(rank);
    EXPECT_TRUE(Come(hello, 77).ok());
    for (Plane::Connection c : {Of(0), Plane::Connection{77}}) {
      EXPECT_THAT(EndOf(c),
                  HasSubstr(StrCat("rank ", rank, " (process 101 on node0): there are 4 ranks, 0 to 3; correct RANK")));
    }
  }
}

TEST_F(PlaneTest, NamesAnotherBuild) {
  Open(2);
  Hello hello = HelloOf(1, 2);
  hello.set_version(kVersion + 1);
  EXPECT_TRUE(Come(hello, 77).ok());
  EXPECT_THAT(EndOf(77), HasSubstr("start the same build of the program everywhere"));
}

TEST_F(PlaneTest, HearsOnlyThoseWhoSaidWhoTheyAre) {
  Open(2);
  ToHub message;
  message.mutable_give()->set_number(1);
  EXPECT_FALSE(plane_->Hear(77, message, now_).ok());
  plane_->Lose(77, now_);
  EXPECT_TRUE(sent_.empty());
}

TEST_F(PlaneTest, ExchangesBytes) {
  Meet(3);
  Give(2, 1, "c");
  Give(0, 1, "a");
  EXPECT_THAT(TakenBy(0), ElementsAre("nothing"));
  Give(0, 2, "root", true);  // ahead of the others
  Give(1, 1, "");
  for (int r : {0, 1, 2}) EXPECT_THAT(TakenBy(r), ElementsAre("a", "", "c"));
  sent_.clear();
  Give(1, 2, "", true);
  Give(2, 2, "", true);
  for (int r : {0, 1, 2}) EXPECT_THAT(TakenBy(r), ElementsAre("root"));
}

TEST_F(PlaneTest, NamesWhoExchangesSomethingElse) {
  Meet(2);
  Give(0, 1, "a");
  Give(1, 1, "b", true);
  EXPECT_THAT(EndOf(Of(0)), HasSubstr("exchange 1 is an all-gather for rank 0 (process 100 on node0) but a broadcast "
                                      "for rank 1 (process 101 on node0)"));
}

TEST_F(PlaneTest, NamesWhoDoesNotComeToAnExchange) {
  Meet(3);
  Give(0, 1, "a");
  Pass(20);
  Give(2, 1, "c");
  Pass(9.9);
  EXPECT_EQ(EndOf(Of(0)), "");
  Pass(0.2);
  EXPECT_THAT(EndOf(Of(2)), HasSubstr("rank 1 did not take part in exchange 1 of the bootstrap within 30 s "
                                      "(timeout_s): rank 1 (process 101 on node0)"));
}

TEST_F(PlaneTest, NamesWhoIsLostWhileOthersWaitForIt) {
  Meet(3);
  Give(0, 1, "a");
  plane_->Lose(Of(1), now_);
  EXPECT_THAT(EndOf(Of(0)), HasSubstr("14 fabric.rendezvous: lost rank 1 (process 101 on node0)"));
  EXPECT_THAT(EndOf(Of(2)), HasSubstr("exchange 1"));
}

TEST_F(PlaneTest, GoesOnWithoutOneWhoIsNotNeeded) {
  Meet(3);
  plane_->Lose(Of(1), now_);
  Leave(2);
  EXPECT_EQ(EndOf(Of(0)), "");
  Give(0, 1, "a");
  EXPECT_THAT(EndOf(Of(0)), HasSubstr("lost rank 1"));
}

TEST_F(PlaneTest, NamesWhoHasLeftWhenItIsNeeded) {
  Meet(2);
  Leave(1);
  Give(0, 1, "a");
  EXPECT_THAT(EndOf(Of(0)), AllOf(HasSubstr("rank 1 (process 101 on node0) left while others waited for it"),
                                  Not(HasSubstr("lost"))));
}

TEST_F(PlaneTest, WhoGaveAndLeftIsNotMissed) {
  Meet(2);
  Give(1, 1, "b");
  Leave(1);
  Give(0, 1, "a");
  EXPECT_THAT(TakenBy(0), ElementsAre("a", "b"));
}

// One process in the places of two: nobody else could ever come as the second.
TEST_F(PlaneTest, WhoSaysTwiceWhoItIsEndsAll) {
  Open(3);
  Come(0, 3);
  Come(1, 3);
  EXPECT_TRUE(Come(HelloOf(2, 3), Of(1)).ok());
  for (const int rank : {0, 1}) {
    EXPECT_THAT(EndOf(Of(rank)), AllOf(HasSubstr("rank 1 (process 101 on node0) introduced itself a second time on one "
                                                 "connection, now as rank 2 (process 102 on node1)"),
                                       HasSubstr("the same build")));
  }
}

TEST_F(PlaneTest, WhoSaysTwiceWhoItIsOnceAllHaveMetIsRefusedAlone) {
  Meet(2);
  EXPECT_EQ(Come(HelloOf(1, 2), Of(1)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(EndOf(Of(0)), "");
}

// The kernel of a stopped process still answers for its connection.
TEST_F(PlaneTest, NamesWhoIsSilentBeforeAllHaveCome) {
  silence_s_ = 15;
  Open(3);
  Come(0, 3);
  Come(1, 3);
  Pass(14.9);
  EXPECT_EQ(EndOf(Of(0)), "");
  Pass(0.2);
  EXPECT_THAT(EndOf(Of(0)), HasSubstr("lost rank 1 (process 101 on node0) before all ranks had joined"));
}

TEST_F(PlaneTest, NamesWhoIsSilentWhileOthersWaitForIt) {
  silence_s_ = 15;
  Meet(2);
  Pass(100);
  EXPECT_EQ(EndOf(Of(0)), "") << "nobody waits for rank 1";
  EXPECT_TRUE(plane_->Hear(Of(1), {}, now_).ok());
  Give(0, 1, "a");
  Pass(14.9);
  EXPECT_EQ(EndOf(Of(0)), "");
  Pass(0.2);
  EXPECT_THAT(EndOf(Of(0)), HasSubstr("lost rank 1 (process 101 on node0): it has ended or is stopped"));
}

TEST_F(PlaneTest, GivesSignsOfLife) {
  silence_s_ = 15;
  Meet(2);
  Pass(2.9);
  EXPECT_TRUE(sent_[Of(1)].empty());
  Pass(0.2);
  ASSERT_EQ(sent_[Of(1)].size(), 1u);
  EXPECT_EQ(sent_[Of(1)][0].what_case(), FromHub::WHAT_NOT_SET);
}

TEST_F(PlaneTest, ATimeWithoutEndIsLong) {
  timeout_s_ = std::numeric_limits<double>::infinity();
  Open(2);
  Hello hello = HelloOf(0, 2);
  for (const double forever : {std::numeric_limits<double>::infinity(), 1e300, 1e10}) {
    hello.set_patience_s(forever);
    sent_.clear();
    Open(2);
    EXPECT_TRUE(Come(hello, Of(0)).ok());
    Pass(1e6);
    EXPECT_EQ(EndOf(Of(0)), "") << forever;
  }
}

TEST_F(PlaneTest, ATimeThatIsNoNumberIsNamed) {
  Open(2);
  Hello hello = HelloOf(1, 2);
  hello.set_patience_s(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(Come(hello, Of(1)).ok());
  Come(0, 2);
  EXPECT_THAT(EndOf(Of(0)), AllOf(HasSubstr("rank 1 (process 101 on node0) would wait nan s"),
                                  HasSubstr("fabric.rendezvous.timeout_s")));
}

}  // namespace plane_test
}  // namespace twofold::control
