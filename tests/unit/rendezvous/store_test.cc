// The store and its members, within this process and between processes that come late, twice, never, or die.
#include "backends/rendezvous/store.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <asio.hpp>
#include <future>

#include "backends/rendezvous/address.h"
#include "backends/rendezvous/channel.h"
#include "backends/rendezvous/member.h"
#include "backends/rendezvous/rendezvous.grpc.pb.h"
#include "tests/children.h"
#include "tests/ports.h"

namespace twofold::rendezvous {
namespace store_test {

using test::Child;
using test::Environment;
using test::Ports;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string Text(const absl::Status& status) { return StrCat(status.code(), " ", std::string(status.message())); }

// ---- Within this process ----

class StoreTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Store>> Listen(int size, int port = 0, const std::string& bind = "127.0.0.1") {
    auto store = Store::Listen({.size = size,
                                .bind = bind,
                                .port = port,
                                .place = "node0:29500",
                                .process = "process 100 on node0",
                                .timeout_s = timeout_s_,
                                .token = "ours"});
    if (store.ok()) port_ = (*store)->port();
    return store;
  }
  absl::StatusOr<std::unique_ptr<Member>> Join(int rank, int size, const std::string& token = "ours") {
    return Member::Join(
        {.rank = rank, .size = size, .host = "127.0.0.1", .port = port_, .timeout_s = timeout_s_, .token = token});
  }
  std::future<absl::StatusOr<std::unique_ptr<Member>>> Joining(int rank, int size) {
    return std::async(std::launch::async, [this, rank, size] { return Join(rank, size); });
  }
  double timeout_s_ = 60;
  int port_ = 0;
};

TEST_F(StoreTest, ManyMeetAndExchange) {
  constexpr int kSize = 24;
  auto store = *Listen(kSize);
  std::vector<std::future<bool>> right;
  for (int rank = 0; rank < kSize; ++rank) {
    right.push_back(std::async(std::launch::async, [this, rank] {
      const auto member = *Join(rank, kSize);
      bool good = member->local_rank() == rank && member->local_size() == kSize;
      for (int round = 0; round < 5; ++round) {
        const auto all =
            *member->AllGather(std::string(static_cast<size_t>(1000 * round), static_cast<char>('a' + rank)));
        for (int r = 0; r < kSize; ++r) {
          good = good && all[static_cast<size_t>(r)] ==
                             std::string(static_cast<size_t>(1000 * round), static_cast<char>('a' + r));
        }
        good = good && *member->Broadcast(StrCat("by ", rank)) == "by 0";
      }
      return good;
    }));
  }
  for (auto& each : right) EXPECT_TRUE(each.get());
}

// Rank 0 may be done, and close, before others have read what it sent last.
TEST_F(StoreTest, ClosesOnlyWhenAllHaveHeardTheRest) {
  auto store = *Listen(2);
  auto zero = Joining(0, 2);
  // A rank 1 that reads late, and a message that is more than can be on its way.
  const auto channel = grpc::CreateChannel(StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials());
  const auto stub = Rendezvous::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata(kTokenName, "ours");
  const auto call = stub->Join(&context);
  FromMember hello, give, leave;
  *hello.mutable_hello() = ThisProcess();
  hello.mutable_hello()->set_rank(1);
  hello.mutable_hello()->set_size(2);
  hello.mutable_hello()->set_patience_s(60);
  give.mutable_give()->set_number(1);
  give.mutable_give()->set_broadcast(true);
  leave.mutable_leave();
  FromStore message;
  call->Write(hello);
  while (!message.has_seat()) ASSERT_TRUE(call->Read(&message));
  const std::string bytes(3 << 20, 'x');
  call->Write(give);
  auto member = *zero.get();
  EXPECT_TRUE(*member->Broadcast(bytes) == bytes);
  auto closed = std::async(std::launch::async, [&] {
    member.reset();
    store.reset();
  });
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  ASSERT_TRUE(call->Read(&message) && message.has_taken());
  EXPECT_TRUE(message.taken().bytes(0) == bytes);
  EXPECT_TRUE(call->Read(&message) && message.has_farewell());
  call->Write(leave);
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
  closed.get();
}

TEST_F(StoreTest, StrangersAreRefusedAndDisturbNoOne) {
  auto store = *Listen(2);
  for (const char* token : {"theirs", "", "ours and more", "our"}) {
    const auto refused = Join(1, 2, token);
    EXPECT_EQ(refused.status().code(), Code::kPermissionDenied) << token;
    EXPECT_THAT(Text(refused.status()),
                AllOf(HasSubstr("rank 1 (process "),
                      HasSubstr("is refused: the store at node0:29500 (process 100 on node0) belongs to another run"),
                      HasSubstr("TWOFOLD_JOB_TOKEN")));
  }
  auto zero = Joining(0, 2), one = Joining(1, 2);
  EXPECT_TRUE(zero.get().ok());
  EXPECT_TRUE(one.get().ok());
}

TEST_F(StoreTest, AnyBytesMakeAToken) {
  const std::string token("\0\n\xff", 3);
  auto store = *Store::Listen({.size = 1, .bind = "127.0.0.1", .place = "here", .process = "this", .token = token});
  port_ = store->port();
  EXPECT_EQ(Join(0, 1, std::string("\0\n", 2)).status().code(), Code::kPermissionDenied);
  EXPECT_TRUE(Join(0, 1, token).ok());
}

TEST_F(StoreTest, ARankThatThereIsNotEndsAll) {
  auto store = *Listen(2);
  auto zero = Joining(0, 2);
  const auto third = Join(2, 2);
  EXPECT_THAT(Text(third.status()), HasSubstr("there are 2 ranks, 0 to 1; correct RANK"));
  EXPECT_EQ(zero.get().status(), third.status());
}

TEST_F(StoreTest, WhoeverComesAsAnotherOnceAllHaveMetIsRefusedAlone) {
  auto store = *Listen(1);
  const auto zero = *Join(0, 1);
  const auto again = Join(0, 1);
  EXPECT_EQ(again.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Text(again.status()), HasSubstr("rank 0 joined twice"));
  EXPECT_EQ(*zero->Broadcast("fine"), "fine");
}

TEST_F(StoreTest, AStoreThatClosesBeforeAllHaveComeIsNamed) {
  auto store = *Listen(2);
  auto one = Joining(1, 2);
  EXPECT_EQ(one.wait_for(std::chrono::seconds(3)), std::future_status::timeout);
  store.reset();
  EXPECT_THAT(Text(one.get().status()),
              AllOf(HasSubstr("rank 0 (process 100 on node0) has closed the store while rank 1"),
                    HasSubstr("still needed it")));
}

TEST_F(StoreTest, AStoreThatIsLostFailsOnlyWhatStillNeedsIt) {
  auto store = *Listen(1);
  const auto member = *Join(0, 1);
  store.reset();
  EXPECT_THAT(Text(member->AllGather("a").status()), HasSubstr("has closed the store"));
}

TEST_F(StoreTest, ListensWhereItIsTold) {
  auto store = *Listen(1, 0, "127.0.0.2");
  EXPECT_EQ(store->address(), "127.0.0.2");
  EXPECT_THAT(WhyNoAnswer({.address = "127.0.0.1", .port = store->port()}), HasSubstr("refused"));
  EXPECT_THAT(WhyNoAnswer({.address = "127.0.0.2", .port = store->port()}), HasSubstr("not a rendezvous store"));
  auto everywhere = *Listen(1, 0, "0.0.0.0");
  EXPECT_EQ(everywhere->address(), "127.0.0.1");
  EXPECT_TRUE(Join(0, 1).ok());
}

TEST_F(StoreTest, SharesItsPortWithNoOne) {
  auto store = *Listen(1);
  const auto second = Listen(1, store->port());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(Text(second.status()), AllOf(HasSubstr(StrCat("rank 0 (process 100 on node0) cannot listen at 127.0.0.1:",
                                                            store->port(), ": another process listens there already")),
                                           HasSubstr("choose another port (MASTER_PORT")));
  const int port = store->port();
  store.reset();
  EXPECT_TRUE(Listen(1, port).ok()) << "free again at once";
}

TEST_F(StoreTest, AllowsItselfAConnectionForEachRank) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few = {1024, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  {
    auto store = *Listen(480);  // one to the store, one to the watch's hub
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    EXPECT_GE(now.rlim_cur, 2 * 480u + 256);
  }
  const auto too_many = Listen(2000000000);
  EXPECT_EQ(too_many.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Text(too_many.status()), AllOf(HasSubstr("a store of 2000000000 ranks needs"), HasSubstr("ulimit -Hn")));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(StoreTest, WithoutATokenListensAtTheLoopbackAddressAlone) {
  const auto listen = [](const std::string& bind) {
    return Store::Listen({.size = 2, .bind = bind, .place = "here", .process = "process 100 on node0", .token = ""});
  };
  for (const char* bind : {"0.0.0.0", "203.0.113.1"}) {
    const absl::Status refused = listen(bind).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << bind;
    EXPECT_THAT(Text(refused), AllOf(HasSubstr(StrCat("rank 0 (process 100 on node0) would listen at ", bind)),
                                     HasSubstr("set TWOFOLD_JOB_TOKEN")));
  }
  for (const char* bind : {"127.0.0.1", "127.0.0.2"}) EXPECT_TRUE(listen(bind).ok()) << bind;
}

TEST_F(StoreTest, WithoutATokenIsLookedForAtTheLoopbackAddressAlone) {
  const absl::Status refused =
      Member::Join({.rank = 1, .size = 2, .host = "203.0.113.1", .port = 1, .timeout_s = 1, .token = ""}).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(Text(refused),
              AllOf(HasSubstr("rank 1 (process "), HasSubstr("203.0.113.1:1"), HasSubstr("set TWOFOLD_JOB_TOKEN")));
}

TEST_F(StoreTest, ListensOnlyAtThisHost) {
  const auto elsewhere = Listen(1, 29500, "203.0.113.1");  // an address for documentation, nobody's
  EXPECT_EQ(elsewhere.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Text(elsewhere.status()),
              AllOf(HasSubstr("cannot listen at 203.0.113.1:29500: that is not an address of this host"),
                    HasSubstr("fabric.rendezvous.bind")));
  const auto unknown = Listen(1, 29500, "no-such-host.invalid");
  EXPECT_EQ(unknown.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(Text(unknown.status()),
              AllOf(HasSubstr("no-such-host.invalid cannot be resolved"), HasSubstr("MASTER_ADDR")));
}

TEST_F(StoreTest, TheTimeOutSaysWhatKeptAMemberFromTheStore) {
  timeout_s_ = 1;
  const Ports nobodys;
  port_ = nobodys.first();
  EXPECT_THAT(Text(Join(1, 2).status()),
              AllOf(HasSubstr(StrCat("did not find rank 0's store at 127.0.0.1:", port_, " within 1 s")),
                    HasSubstr("Connection refused")));
  EXPECT_THAT(
      Text(Member::Join({.rank = 1, .size = 2, .host = "no-such-host.invalid", .port = 1, .timeout_s = 1}).status()),
      HasSubstr("cannot be resolved"));
  asio::io_context io;
  asio::ip::tcp::acceptor other(io, {asio::ip::make_address("127.0.0.1"), 0});
  port_ = other.local_endpoint().port();
  EXPECT_THAT(Text(Join(1, 2).status()), HasSubstr("a program that is not a rendezvous store listens there"));
}

// ---- Between processes ----

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
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
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
  for (int rank : {1, 2}) Start(rank, 3, "meet", 2);
  for (auto& child : children_) {
    EXPECT_EQ(child->Wait(), 1);
    EXPECT_THAT(child->Output(),
                AllOf(HasSubstr(Process(*child)),
                      HasSubstr(StrCat("did not find rank 0's store at localhost:", port_, " within 2 s")),
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
    if (bind[0] == '0')
      EXPECT_THAT(children[0]->Output(), AllOf(HasSubstr("error 3 "), HasSubstr("would listen at 0.0.0.0"),
                                               HasSubstr("set TWOFOLD_JOB_TOKEN")));
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

}  // namespace store_test
}  // namespace twofold::rendezvous
