// Clients of several "processes" within one, at one desk: what needs no network.
#include "backends/control/client.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/control/testing.h"

namespace twofold::control {
namespace client_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Client, ResultsComeTogetherAtRankZero) {
  auto clients = Clients(3);
  for (int run = 0; run < 3; ++run) {
    std::vector<std::unique_ptr<host::RunState>> states;
    for (auto& w : clients) {
      states.push_back(std::make_unique<host::RunState>(3, 60));
      w->Begin(3, 60, states.back().get(), [] { ADD_FAILURE() << "nothing failed"; });
    }
    for (size_t r = 0; r < 3; ++r) clients[r]->Finish("result " + std::to_string(r));
    for (auto& w : clients) EXPECT_EQ(w->AwaitVerdict().code(), 0);
    EXPECT_THAT(clients[0]->Conclude().results, ElementsAre("result 0", "result 1", "result 2"));
    EXPECT_TRUE(clients[1]->Conclude().status.ok());
  }
  EXPECT_TRUE(clients[0]->speaks());
  EXPECT_FALSE(clients[1]->speaks());
}

// A process that stands by may hear how a run ended before it has begun it.
TEST(Client, WhoIsLateHearsTheVerdictToo) {
  auto clients = Clients(3);
  for (int run = 0; run < 3; ++run) {
    host::RunState state(1, 60);
    clients[0]->Begin(1, 60, &state, [] {});
    clients[1]->Begin(1, 60, nullptr, [] {});
    clients[0]->Finish("whole");
    EXPECT_EQ(clients[0]->AwaitVerdict().code(), 0);
    EXPECT_EQ(clients[1]->AwaitVerdict().code(), 0);
    clients[0]->Conclude();
    (void)clients[2]->Get("");  // the answer comes after the verdict
    clients[2]->Begin(1, 60, nullptr, [] {});
    EXPECT_EQ(clients[2]->AwaitVerdict().code(), 0);
  }
}

TEST(Client, AFailureReachesEveryProcessAndPartsAreHandedIn) {
  auto clients = Clients(2);
  host::RunState first(2, 60), second(2, 60);
  std::atomic<int> told = 0;
  clients[0]->Begin(2, 60, &first, [&] { ++told; });
  clients[1]->Begin(2, 60, &second, [&] { ++told; });
  second.Explain(1, RankFailure::Kind::kOther, "rank 1: injected");
  for (auto& w : clients) EXPECT_EQ(w->AwaitVerdict().message(), "rank 1: injected");
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(first.ending());
  clients[0]->HandIn("part 0");
  clients[1]->HandIn("part 1");
  const RunResult result = clients[0]->Conclude();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(result.results, ElementsAre("part 0", "part 1"));
}

TEST(Client, ATimeOutNamesTheCall) {
  auto clients = Clients(2);
  host::RunState first(2, 0.2), second(2, 0.2);
  clients[0]->Begin(2, 0.2, &first, [] {});
  clients[1]->Begin(2, 0.2, &second, [] {});
  auto call = std::make_shared<host::Call>();
  call->group = std::make_shared<const std::string>("world");
  call->communication.kind = Communication::kBarrier;
  call->sequence = 4;
  call->identity = std::make_shared<host::GroupIdentity>(host::GroupIdentity{1, "world", {0, 1}});
  first.Begin(0, call);
  const Verdict v = clients[1]->AwaitVerdict();
  EXPECT_EQ(v.code(), static_cast<int>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(v.message(), AllOf(HasSubstr("rank 0: barrier (0 bytes), collective 4 of group world has waited 0.2 s"),
                                 HasSubstr("for rank 1, which has not communicated yet")));
  clients[0]->HandIn("");
  clients[1]->HandIn("");
  clients[0]->Conclude();
}

TEST(Client, RanksExchangeBytes) {
  auto clients = Clients(3);
  std::vector<std::thread> threads;
  for (auto& client : clients) {
    threads.emplace_back([&client] {
      for (int round = 0; round < 20; ++round) {
        const auto all = *client->AllGather(StrCat("by ", client->rank()));
        EXPECT_THAT(all, ElementsAre("by 0", "by 1", "by 2"));
        EXPECT_EQ(*client->Broadcast(StrCat("by ", client->rank())), "by 0");
      }
    });
  }
  for (std::thread& t : threads) t.join();
}

TEST(Client, SharesValues) {
  auto clients = Clients(2);
  EXPECT_EQ(clients[0]->Get("address").status().code(), absl::StatusCode::kNotFound);
  auto waits = std::async(std::launch::async, [&] { return clients[1]->Wait("address", 60); });
  EXPECT_TRUE(clients[0]->Set("address", "here").ok());
  EXPECT_EQ(*waits.get(), "here");
  EXPECT_TRUE(clients[0]->Set("address", "there").ok());
  EXPECT_EQ(*clients[1]->Get("address"), "there");
  EXPECT_EQ(clients[1]->Wait("never", 0.05).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(clients[1]->Set(std::string(5000, 'k'), "").code(), absl::StatusCode::kResourceExhausted);
}

TEST(Client, PassesMessagesOn) {
  auto clients = Clients(3);
  std::promise<Relayed> heard;
  clients[2]->OnRelayed([&heard](const Relayed& message) { heard.set_value(message); });
  for (auto& client : clients) client->Begin(3, 60, nullptr, [] {});
  Relayed message;
  message.set_to(2);
  message.set_group(7);
  message.mutable_offer()->set_sequence(4);
  clients[1]->Relay(message);
  const Relayed got = heard.get_future().get();
  EXPECT_EQ(got.from(), 1);
  EXPECT_EQ(got.group(), 7u);
  EXPECT_EQ(got.offer().sequence(), 4u);
}

// Its clock may be looked at at the moment when it is taken down.
TEST(Client, EndsAtAnyMoment) {
  for (int i = 0; i < 20; ++i) {
    auto clients = Clients(2);
    std::this_thread::sleep_for(std::chrono::microseconds(19000 + 100 * i));
  }
}

}  // namespace client_test
}  // namespace twofold::control
