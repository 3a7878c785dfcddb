// Processes that come to the control plane late, twice, never, or die.
#include <gmock/gmock.h>

#include <asio.hpp>

#include "tests/children.h"
#include "tests/ports.h"

namespace twofold::control {
namespace processes_test {

using test::Child;
using test::Environment;
using test::Ports;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ProcessesTest : public ::testing::Test {
 protected:
  Environment Of(int rank, int size) const {
    return {{"RANK", StrCat(rank)},
            {"WORLD_SIZE", StrCat(size)},
            {"MASTER_ADDR", "localhost"},
            {"MASTER_PORT", StrCat(port_)},
            {"TWOFOLD_JOB_TOKEN", token_}};
  }
  Child& Start(int rank, int size, const std::string& what = "meet", double timeout_s = 60) {
    children_.push_back(std::make_unique<Child>(
        std::vector<std::string>{TWOFOLD_SCENARIO, what, StrCat("timeout_s: ", timeout_s)}, Of(rank, size)));
    return *children_.back();
  }
  std::string Process(const Child& child) const {
    return StrCat("(process ", child.pid(), " on ", asio::ip::host_name(), ")");
  }

  const Ports ports_{3};
  const int port_ = ports_.first();
  std::string token_ = "of this test";
  std::vector<std::unique_ptr<Child>> children_;
};

TEST_F(ProcessesTest, MeetThoughRankZeroIsLate) {
  for (int rank : {2, 1, 3}) Start(rank, 4);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(children_[0]->Output(), "");
  Start(0, 4);
  const int ranks[] = {2, 1, 3, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(children_[i]->Wait(), 0) << children_[i]->Output();
    EXPECT_EQ(children_[i]->Output(),
              StrCat("met ", ranks[i], " of 4, here ", ranks[i], " of 4, by the store at localhost:", port_,
                     "\ngathered of 0,of 1,of 2,of 3\nbroadcast by 0\n"));
  }
}

TEST_F(ProcessesTest, GoOnWithoutTheStoreOnceTheyHaveMet) {
  for (int rank : {0, 1, 2}) Start(rank, 3, "stay");
  for (auto& child : children_) EXPECT_EQ(child->Wait(), 0) << child->Output();
  EXPECT_THAT(children_[2]->Output(), HasSubstr("still here"));
}

TEST_F(ProcessesTest, WithoutRankZeroAllEnd) {
  for (int rank : {1, 2}) Start(rank, 3, "meet", 1);
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 1);
    EXPECT_THAT(child->Output(),
                AllOf(HasSubstr(Process(*child)),
                      HasSubstr(StrCat("did not find rank 0's store at localhost:", port_, " within 1 s")),
                      HasSubstr("refused")));
  }
}

TEST_F(ProcessesTest, ARankThatComesTwiceEndsAll) {
  for (int rank : {0, 1, 1}) Start(rank, 3);
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 1);
    EXPECT_THAT(child->Output(), AllOf(HasSubstr("rank 1 joined twice: process "),
                                       HasSubstr(StrCat("process ", children_[1]->pid(), " on ")),
                                       HasSubstr(StrCat("process ", children_[2]->pid(), " on "))));
  }
}

TEST_F(ProcessesTest, ARankThatDiesWhileOthersWaitEndsAll) {
  Start(0, 3);
  const Child& dying = Start(2, 3, "come");
  EXPECT_EQ(children_[0]->Wait(), 1);
  EXPECT_EQ(children_[1]->Wait(), 128 + SIGKILL);
  EXPECT_THAT(children_[0]->Output(), HasSubstr(StrCat("error 14 fabric.rendezvous: lost rank 2 ", Process(dying),
                                                       " before all ranks had joined")));
}

TEST_F(ProcessesTest, ARankThatDiesInAnExchangeEndsAll) {
  Start(0, 3), Start(1, 3, "die"), Start(2, 3);
  for (size_t rank : {0, 2}) {
    EXPECT_EQ(children_[rank]->Wait(), 1);
    EXPECT_THAT(children_[rank]->Output(),
                HasSubstr(StrCat("error 14 fabric.rendezvous: lost rank 1 ", Process(*children_[1]))));
  }
}

TEST_F(ProcessesTest, RankZerosDeathEndsThoseWhoNeedIt) {
  Start(0, 3, "die"), Start(1, 3), Start(2, 3);
  for (size_t rank : {1, 2}) {
    EXPECT_EQ(children_[rank]->Wait(), 1);
    EXPECT_THAT(children_[rank]->Output(),
                HasSubstr(StrCat("error 14 fabric.rendezvous: lost rank 0 ", Process(*children_[0]).insert(0, ""))));
  }
}

// Meeting is tested by clocks of its tests; these are by the machine's, all at once. The kernel of a stopped process
// still answers for its connections: what waits for one takes twenty seconds. Others wait for a rank that never comes.
TEST_F(ProcessesTest, AStoppedRankAStoppedStoreAndARankThatNeverComesAreMissed) {
  constexpr double kPatience = 12;
  const auto start = std::chrono::steady_clock::now();
  auto meet = [](int stopped, int port) {
    std::vector<std::unique_ptr<Child>> children;
    for (int rank = 0; rank < 3; ++rank) {
      children.push_back(std::make_unique<Child>(
          std::vector<std::string>{TWOFOLD_SCENARIO, rank == stopped ? "stop" : "meet", "timeout_s: 300"},
          Environment{{"RANK", StrCat(rank)},
                      {"WORLD_SIZE", "3"},
                      {"MASTER_ADDR", "127.0.0.1"},
                      {"MASTER_PORT", StrCat(port)}}));
    }
    return children;
  };
  for (int rank : {0, 1, 3}) Start(rank, 4, "meet", kPatience);
  const auto without_one = meet(1, port_ + 1), without_store = meet(0, port_ + 2);
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 1);
    EXPECT_THAT(child->Output(),
                AllOf(HasSubstr("error 4 fabric.rendezvous: rank 2 of 4 did not reach the store at localhost:"),
                      HasSubstr(StrCat("(rank 0, process ", children_[0]->pid(), " on ")), HasSubstr("within 12 s"),
                      HasSubstr("Joined: ranks 0, 1, 3 on ")));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::duration<double>(kPatience));
  for (const size_t rank : {0, 2}) {
    EXPECT_EQ(without_one[rank]->Wait(), 1) << without_one[rank]->Output();
    EXPECT_THAT(without_one[rank]->Output(),
                HasSubstr(StrCat("error 14 fabric.rendezvous: lost rank 1 ", Process(*without_one[1]),
                                 ": it has ended or is stopped")));
  }
  for (const size_t rank : {1, 2}) {
    EXPECT_EQ(without_store[rank]->Wait(), 1) << without_store[rank]->Output();
    EXPECT_THAT(without_store[rank]->Output(),
                HasSubstr(StrCat("error 14 fabric.rendezvous: lost rank 0 ", Process(*without_store[0]))));
  }
}

TEST_F(ProcessesTest, ARankThatLeavesEarlyIsNamed) {
  Start(0, 3), Start(1, 3), Start(2, 3, "go");
  EXPECT_EQ(children_[2]->Wait(), 0);
  for (size_t rank : {0, 1}) {
    EXPECT_EQ(children_[rank]->Wait(), 1);
    EXPECT_THAT(children_[rank]->Output(),
                HasSubstr(StrCat("rank 2 ", Process(*children_[2]), " left while others waited for it")));
  }
}

TEST_F(ProcessesTest, RanksThatDisagreeAboutTheirNumberEnd) {
  Start(0, 3), Start(1, 4);
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 1);
    EXPECT_THAT(child->Output(),
                AllOf(HasSubstr(StrCat("rank 1 ", Process(*children_[1]), " was told that there are 4 ranks")),
                      HasSubstr("that there are 3")));
  }
}

TEST_F(ProcessesTest, AnotherJobsRankIsRefused) {
  Start(0, 2);
  token_ = "of another";
  Child& stranger = Start(1, 2);
  EXPECT_EQ(stranger.Wait(), 1);
  EXPECT_THAT(stranger.Output(),
              AllOf(HasSubstr("error 7 "), HasSubstr(StrCat("rank 1 ", Process(stranger), " is refused")),
                    HasSubstr("another run")));
  token_ = "of this test";
  Start(1, 2);
  EXPECT_EQ(children_[0]->Wait(), 0) << children_[0]->Output();
  EXPECT_EQ(children_[2]->Wait(), 0) << children_[2]->Output();
}

TEST_F(ProcessesTest, AMissingAddressOrPortIsNamed) {
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"}) {
    Environment environment = Of(1, 2);
    environment.erase(name);
    Child child({TWOFOLD_SCENARIO, "meet"}, environment);
    EXPECT_EQ(child.Wait(), 1);
    EXPECT_THAT(child.Output(), AllOf(HasSubstr("error 3 "), HasSubstr(StrCat(name, " is not set"))));
  }
}

TEST_F(ProcessesTest, TheSpecGoesBeforeTheVariables) {
  Environment zero = Of(0, 2), one = Of(1, 2);
  zero["MASTER_ADDR"] = one["MASTER_ADDR"] = "no-such-host.invalid";
  const std::string spec = StrCat("address: '127.0.0.1' bind: '0.0.0.0' timeout_s: 60 port: ", port_ + 1);
  Child a({TWOFOLD_SCENARIO, "meet", spec}, zero), b({TWOFOLD_SCENARIO, "meet", spec}, one);
  EXPECT_EQ(a.Wait(), 0) << a.Output();
  EXPECT_EQ(b.Wait(), 0) << b.Output();
}

TEST_F(ProcessesTest, WithoutATokenMeetOnOneHostAlone) {
  for (const char* bind : {"127.0.0.1", "0.0.0.0"}) {
    std::vector<std::unique_ptr<Child>> children;
    for (const int rank : {0, 1}) {
      Environment environment = Of(rank, 2);
      environment.erase("TWOFOLD_JOB_TOKEN");
      children.push_back(std::make_unique<Child>(
          std::vector<std::string>{TWOFOLD_SCENARIO, "meet",
                                   StrCat("timeout_s: 60 address: '127.0.0.1' bind: '", bind, "'")},
          environment));
      if (bind[0] == '0') break;  // the other would look for it where it may be
    }
    for (const auto& child : children) EXPECT_EQ(child->Wait(), bind[0] == '0' ? 1 : 0) << child->Output();
    if (bind[0] == '0') {
      EXPECT_THAT(children[0]->Output(), AllOf(HasSubstr("error 3 "), HasSubstr("would listen at 0.0.0.0"),
                                               HasSubstr("set TWOFOLD_JOB_TOKEN")));
    }
  }
}

TEST_F(ProcessesTest, ANameThatIsALoopbackAddressIsRefusedBetweenHosts) {
  for (const char* says : {"NNODES", "LOCAL_WORLD_SIZE"}) {
    Environment environment = Of(0, 4);
    environment["LOCAL_RANK"] = "0";
    environment[says] = "2";
    Child child({TWOFOLD_SCENARIO, "meet"}, environment);
    EXPECT_EQ(child.Wait(), 1);
    EXPECT_THAT(child.Output(), AllOf(HasSubstr("would listen at localhost, which is "), HasSubstr("cannot reach it"),
                                      HasSubstr("fabric.rendezvous.bind")))
        << says;
  }
}

TEST_F(ProcessesTest, WrongVariablesAreNamed) {
  Environment environment = Of(2, 2);
  Child child({TWOFOLD_SCENARIO, "meet"}, environment);
  EXPECT_EQ(child.Wait(), 1);
  EXPECT_THAT(child.Output(), HasSubstr("error 3 the environment of this process: RANK=2, but WORLD_SIZE=2"));
}

TEST_F(ProcessesTest, OneProcessNeedsNoStore) {
  Child child({TWOFOLD_SCENARIO, "meet"});
  EXPECT_EQ(child.Wait(), 0) << child.Output();
  EXPECT_EQ(child.Output(), "met 0 of 1, here 0 of 1, by none (a single process)\ngathered of 0\nbroadcast by 0\n");
}

// ---- As launchers start them ----

TEST_F(ProcessesTest, MeetUnderTorchrunBesideItsOwnStore) {
  asio::io_context io;
  const asio::ip::tcp::acceptor agents(io, {asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(port_)});
  for (int rank : {0, 1}) {
    Environment environment = Of(rank, 2);
    environment.erase("TWOFOLD_JOB_TOKEN");
    for (const auto& [name, value] : Environment{{"MASTER_ADDR", "127.0.0.1"},
                                                 {"LOCAL_RANK", StrCat(rank)},
                                                 {"LOCAL_WORLD_SIZE", "2"},
                                                 {"GROUP_RANK", "0"},
                                                 {"GROUP_WORLD_SIZE", "1"},
                                                 {"TORCHELASTIC_RUN_ID", "none"},
                                                 {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
      environment[name] = value;
    children_.push_back(std::make_unique<Child>(std::vector<std::string>{TWOFOLD_SCENARIO}, environment));
  }
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 0) << child->Output();
    EXPECT_THAT(child->Output(), HasSubstr(StrCat("by the store at 127.0.0.1:", port_ + 1)));
  }
}

TEST_F(ProcessesTest, MeetUnderPlainSrun) {
  for (int rank : {0, 1, 2}) {
    children_.push_back(std::make_unique<Child>(std::vector<std::string>{TWOFOLD_SCENARIO},
                                                Environment{{"SLURM_JOB_ID", StrCat(port_)},
                                                            {"SLURM_STEP_ID", "0"},
                                                            {"SLURM_PROCID", StrCat(rank)},
                                                            {"SLURM_STEP_NUM_TASKS", "3"},
                                                            {"SLURM_NTASKS", "3"},
                                                            {"SLURM_LOCALID", StrCat(rank)},
                                                            {"SLURM_NODEID", "0"},
                                                            {"SLURM_STEP_NUM_NODES", "1"},
                                                            {"SLURM_STEP_NODELIST", "localhost"}}));
  }
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 0) << child->Output();
    EXPECT_THAT(child->Output(), HasSubstr(StrCat("by the store at localhost:", 10000 + port_ % 10000)));
  }
}

}  // namespace processes_test
}  // namespace twofold::control
