// What members of an elastic run wait for when their generation breaks. Clients at one desk: no network.
#include <gmock/gmock.h>

#include <future>

#include "tests/unit/control/elastic_rank.h"
#include "tests/unit/control/testing.h"

namespace twofold::control {
namespace client_generations_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNeverReached = 60;  // seconds

class ClientGenerations : public ::testing::Test {
 protected:
  ClientGenerations() {
    for (int r = 0; r < 3; ++r)
      members_.push_back(std::make_unique<ElasticRank>(*clients_[static_cast<size_t>(r)], 3, r));
  }
  ~ClientGenerations() override { clients_.clear(); }  // they look at members' states
  // Member 2 says that it has failed, and takes part in nothing.
  void Break() {
    ElasticRank& two = *members_[2];
    two.state().Explain(two.client().member(), RankFailure::Kind::kOther, "injected");
  }
  void ReformAll() {
    Together({[&] { members_[0]->Reform(); }, [&] { members_[1]->Reform(); }, [&] { members_[2]->Reform(); }});
  }
  // Members 0 and 1 wait for member 2 while the generation breaks, or after that.
  void ExpectThatAllWaitsEnd() {
    auto gathers = std::async(std::launch::async, [&] { return clients_[0]->AllGather("a").status(); });
    auto waits = std::async(std::launch::async, [&] { return clients_[1]->Wait("by 2", kNeverReached).status(); });
    Break();
    for (const absl::Status& status : {gathers.get(), waits.get(), clients_[0]->Broadcast("b").status(),
                                       clients_[1]->Wait("by 2", kNeverReached).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << Text(status);
      EXPECT_THAT(Text(status), HasSubstr("a member was lost from this generation"));
    }
    for (const auto& member : members_) EXPECT_EQ(member->AwaitBroken().empty(), false);
  }

  std::vector<std::unique_ptr<Client>> clients_ = Clients(3);
  std::vector<std::unique_ptr<ElasticRank>> members_;
};

// One that has failed may be forming the next generation already, for which it needs those who wait for it.
TEST_F(ClientGenerations, AMemberThatWaitsForAnotherIsWokenIfTheGenerationBreaks) {
  for (int generation = 1; generation <= 3; ++generation) {
    SCOPED_TRACE(generation);
    ExpectThatAllWaitsEnd();
    ReformAll();
    EXPECT_THAT(members_[0]->generation().members, ElementsAre(0, 1, 2));
  }
}

// In the next generation nothing of the broken one is left: exchanges are whole, and values are waited for.
TEST_F(ClientGenerations, TheNextGenerationExchangesAnew) {
  ExpectThatAllWaitsEnd();
  ReformAll();
  for (int round = 0; round < 3; ++round) {
    Together({[&] { EXPECT_THAT(*clients_[0]->AllGather("a"), ElementsAre("a", "b", "c")); },
              [&] { EXPECT_THAT(*clients_[1]->AllGather("b"), ElementsAre("a", "b", "c")); },
              [&] { EXPECT_THAT(*clients_[2]->AllGather("c"), ElementsAre("a", "b", "c")); }});
  }
  auto waits = std::async(std::launch::async, [&] { return *clients_[1]->Wait("by 2", kNeverReached); });
  EXPECT_TRUE(clients_[2]->Set("by 2", "here").ok());
  EXPECT_EQ(waits.get(), "here");
}

// Two may have heard of a loss and asked for the next generation when the third finds that nobody can go on.
TEST_F(ClientGenerations, OneEndsTheRunForAll) {
  Break();
  auto zero = std::async(std::launch::async, [&] { return clients_[0]->Reform(1, kNeverReached).status(); });
  auto one = std::async(std::launch::async, [&] { return clients_[1]->Reform(1, kNeverReached).status(); });
  members_[2]->AwaitBroken();
  clients_[2]->EndRun("the state is lost");
  for (const absl::Status& status : {zero.get(), one.get(), clients_[2]->Reform(1, kNeverReached).status()})
    EXPECT_EQ(status, absl::AbortedError("the state is lost"));
  EXPECT_EQ(clients_[0]->AwaitVerdict().rank(), 2);
}

}  // namespace client_generations_test
}  // namespace twofold::control
