// The served control plane and its clients, within this process.
#include "backends/control/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <asio.hpp>
#include <future>

#include "backends/control/address.h"
#include "backends/control/client.h"
#include "backends/control/control.grpc.pb.h"
#include "backends/control/grpc_settings.h"
#include "tests/ports.h"

namespace twofold::control {
namespace server_test {

using test::Ports;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Code = absl::StatusCode;

std::string Text(const absl::Status& status) { return StrCat(status.code(), " ", std::string(status.message())); }

class ServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<Server>> Listen(int size, int port = 0, const std::string& bind = "127.0.0.1") {
    auto store = Server::Listen({.size = size,
                                 .bind = bind,
                                 .port = port,
                                 .place = "node0:29500",
                                 .process = "process 100 on node0",
                                 .timeout_s = timeout_s_,
                                 .token = "ours"});
    if (store.ok()) port_ = (*store)->port();
    return store;
  }
  absl::StatusOr<std::unique_ptr<Client>> Join(int rank, int size, const std::string& token = "ours") {
    return Client::Join(Client::Options{
        .rank = rank, .size = size, .hosts = {"127.0.0.1"}, .port = port_, .timeout_s = timeout_s_, .token = token});
  }
  std::future<absl::StatusOr<std::unique_ptr<Client>>> Joining(int rank, int size) {
    return std::async(std::launch::async, [this, rank, size] { return Join(rank, size); });
  }
  double timeout_s_ = 60;
  int port_ = 0;
};

TEST_F(ServerTest, ManyMeetAndExchange) {
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
TEST_F(ServerTest, ClosesOnlyWhenAllHaveHeardTheRest) {
  auto store = *Listen(2);
  auto zero = Joining(0, 2);
  // A rank 1 that reads late, and a message that is more than can be on its way.
  const auto channel = grpc::CreateChannel(StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials());
  const auto stub = Control::NewStub(channel);
  grpc::ClientContext context;
  context.AddMetadata(kTokenName, "ours");
  const auto call = stub->Attend(&context);
  ToHub hello, give, leave;
  hello.mutable_hello()->set_version(kVersion);
  hello.mutable_hello()->set_rank(1);
  hello.mutable_hello()->set_size(2);
  hello.mutable_hello()->set_patience_s(60);
  give.mutable_give()->set_number(1);
  give.mutable_give()->set_broadcast(true);
  leave.mutable_leave();
  FromHub message;
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
  EXPECT_EQ(closed.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  while (!message.has_taken()) ASSERT_TRUE(call->Read(&message));  // besides signs of life
  EXPECT_TRUE(message.taken().bytes(0) == bytes);
  while (!message.has_farewell()) ASSERT_TRUE(call->Read(&message));
  call->Write(leave);
  call->WritesDone();
  EXPECT_TRUE(call->Finish().ok());
  closed.get();
}

TEST_F(ServerTest, StrangersAreRefusedAndDisturbNoOne) {
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

TEST_F(ServerTest, AnyBytesMakeAToken) {
  const std::string token("\0\n\xff", 3);
  auto store = *Server::Listen({.size = 1, .bind = "127.0.0.1", .place = "here", .process = "this", .token = token});
  port_ = store->port();
  EXPECT_EQ(Join(0, 1, std::string("\0\n", 2)).status().code(), Code::kPermissionDenied);
  EXPECT_TRUE(Join(0, 1, token).ok());
}

TEST_F(ServerTest, ARankThatThereIsNotEndsAll) {
  auto store = *Listen(2);
  auto zero = Joining(0, 2);
  const auto third = Join(2, 2);
  EXPECT_THAT(Text(third.status()), HasSubstr("there are 2 ranks, 0 to 1; correct RANK"));
  EXPECT_EQ(zero.get().status(), third.status());
}

TEST_F(ServerTest, WhoeverComesAsAnotherOnceAllHaveMetIsRefusedAlone) {
  auto store = *Listen(1);
  const auto zero = *Join(0, 1);
  const auto again = Join(0, 1);
  EXPECT_EQ(again.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Text(again.status()), HasSubstr("rank 0 joined twice"));
  EXPECT_EQ(*zero->Broadcast("fine"), "fine");
}

TEST_F(ServerTest, AStoreThatClosesBeforeAllHaveComeIsNamed) {
  auto store = *Listen(2);
  auto one = Joining(1, 2);
  EXPECT_EQ(one.wait_for(std::chrono::seconds(3)), std::future_status::timeout);
  store.reset();
  EXPECT_THAT(Text(one.get().status()),
              AllOf(HasSubstr("rank 0 (process 100 on node0) has closed the store while rank 1"),
                    HasSubstr("still needed it")));
}

TEST_F(ServerTest, AStoreThatIsLostFailsOnlyWhatStillNeedsIt) {
  auto store = *Listen(1);
  const auto member = *Join(0, 1);
  store.reset();
  EXPECT_THAT(Text(member->AllGather("a").status()), HasSubstr("has closed the store"));
}

TEST_F(ServerTest, ListensWhereItIsTold) {
  auto store = *Listen(1, 0, "127.0.0.2");
  EXPECT_EQ(store->bind(), "127.0.0.2");
  EXPECT_THAT(WhyNoAnswer({.address = "127.0.0.1", .port = store->port()}), HasSubstr("refused"));
  EXPECT_THAT(WhyNoAnswer({.address = "127.0.0.2", .port = store->port()}), HasSubstr("not a rendezvous store"));
  auto everywhere = *Listen(1, 0, "0.0.0.0");
  EXPECT_EQ(everywhere->bind(), "0.0.0.0");
  EXPECT_TRUE(Join(0, 1).ok());
}

TEST_F(ServerTest, SharesItsPortWithNoOne) {
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

TEST_F(ServerTest, AllowsItselfAConnectionForEachRank) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few = {1024, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  {
    auto store = *Listen(900);
    rlimit now{};
    getrlimit(RLIMIT_NOFILE, &now);
    EXPECT_GE(now.rlim_cur, 900u + 128);
  }
  const auto too_many = Listen(2000000000);
  EXPECT_EQ(too_many.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(Text(too_many.status()), AllOf(HasSubstr("a store of 2000000000 ranks needs"), HasSubstr("ulimit -Hn")));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ServerTest, WithoutATokenListensAtTheLoopbackAddressAlone) {
  const auto listen = [](const std::string& bind) {
    return Server::Listen({.size = 2, .bind = bind, .place = "here", .process = "process 100 on node0", .token = ""});
  };
  for (const char* bind : {"0.0.0.0", "203.0.113.1"}) {
    const absl::Status refused = listen(bind).status();
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << bind;
    EXPECT_THAT(Text(refused), AllOf(HasSubstr(StrCat("rank 0 (process 100 on node0) would listen at ", bind)),
                                     HasSubstr("set TWOFOLD_JOB_TOKEN")));
  }
  for (const char* bind : {"127.0.0.1", "127.0.0.2"}) EXPECT_TRUE(listen(bind).ok()) << bind;
}

TEST_F(ServerTest, WithoutATokenIsLookedForAtTheLoopbackAddressAlone) {
  const absl::Status refused =
      Client::Join(
          Client::Options{.rank = 1, .size = 2, .hosts = {"203.0.113.1"}, .port = 1, .timeout_s = 1, .token = ""})
          .status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_THAT(Text(refused),
              AllOf(HasSubstr("rank 1 (process "), HasSubstr("203.0.113.1:1"), HasSubstr("set TWOFOLD_JOB_TOKEN")));
}

TEST_F(ServerTest, ListensOnlyAtThisHost) {
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

TEST_F(ServerTest, TheTimeOutSaysWhatKeptAMemberFromTheStore) {
  timeout_s_ = 1;
  const Ports nobodys;
  port_ = nobodys.first();
  EXPECT_THAT(Text(Join(1, 2).status()),
              AllOf(HasSubstr(StrCat("did not find rank 0's store at 127.0.0.1:", port_, " within 1 s")),
                    HasSubstr("Connection refused")));
  EXPECT_THAT(Text(Client::Join(Client::Options{
                                    .rank = 1, .size = 2, .hosts = {"no-such-host.invalid"}, .port = 1, .timeout_s = 1})
                       .status()),
              HasSubstr("cannot be resolved"));
  asio::io_context io;
  asio::ip::tcp::acceptor other(io, {asio::ip::make_address("127.0.0.1"), 0});
  port_ = other.local_endpoint().port();
  EXPECT_THAT(Text(Join(1, 2).status()), HasSubstr("a program that is not a rendezvous store listens there"));
}

}  // namespace server_test
}  // namespace twofold::control
