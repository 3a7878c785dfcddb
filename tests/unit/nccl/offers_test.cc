// Offers between the clients of three "processes" within one.
#include "backends/nccl/offers.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/errors.h"
#include "gtest/gtest.h"
#include "tests/unit/control/testing.h"

namespace twofold::nccl {
namespace offers_test {

constexpr int kRanks = 3;
constexpr uint64_t kWorld = 1;

class OffersTest : public testing::Test {
 protected:
  void SetUp() override {
    clients_ = control::Clients(kRanks);
    for (int r = 0; r < kRanks; ++r) {
      auto& w = *clients_[static_cast<size_t>(r)];
      runs_.push_back(std::make_unique<host::RunState>(kRanks, 60));
      offers_.push_back(std::make_shared<Offers>(w, r));
      w.OnRelayed([o = offers_.back()](const control::Relayed& message) { o->Hear(message); });
      w.Begin(kRanks, 60, runs_.back().get(), [] {});
    }
    world_.id = kWorld;
    world_.label = "world";
    world_.ranks = {0, 1, 2};
    call_.group = std::make_shared<const std::string>("world");
  }
  void TearDown() override {
    for (auto& w : clients_) w->Finish("");
    for (auto& w : clients_) w->AwaitVerdict();
  }
  Offers& of(int rank) { return *offers_[static_cast<size_t>(rank)]; }
  Offer Await(Tag tag) {
    return of(0).Await(world_, *runs_[0], call_,
                       [tag](const Offer& o) { return o.tag == tag ? Offers::kTake : Offers::kKeep; });
  }

  std::vector<std::unique_ptr<control::Client>> clients_;
  std::vector<std::unique_ptr<host::RunState>> runs_;
  std::vector<std::shared_ptr<Offers>> offers_;
  host::GroupIdentity world_;
  host::Call call_;
};

TEST_F(OffersTest, WhatWaitsIsTold) {
  of(1).Come(kWorld, 0, 7, 1);  // before anybody listens
  const Offer first = Await(7);
  EXPECT_EQ(first.from, 1);
  EXPECT_EQ(first.sequence, 1u);
  of(2).Come(kWorld, 0, 7, 1);
  EXPECT_EQ(Await(7).from, 2);
}

TEST_F(OffersTest, WhatHasGoneIsNot) {
  of(1).Come(kWorld, 0, 7, 1);
  of(1).Gone(kWorld, 0, 1);
  of(1).Come(kWorld, 2, 7, 1);      // for another
  of(1).Come(kWorld + 1, 0, 7, 5);  // on another group
  of(2).Come(kWorld, 0, 7, 3);
  const Offer found = Await(7);
  EXPECT_EQ(found.from, 2);
  EXPECT_EQ(found.sequence, 3u);
}

TEST_F(OffersTest, OtherTagsAreKeptForLater) {
  of(1).Come(kWorld, 0, 4, 1);
  of(2).Come(kWorld, 0, 5, 1);
  EXPECT_EQ(Await(5).from, 2);
  EXPECT_EQ(Await(4).from, 1);
}

// Who looks its sender up in the group would look beyond the end.
TEST_F(OffersTest, WhatComesFromOutsideTheGroupIsForgotten) {
  for (const int from : {3, -1, 1 << 30}) {
    control::Relayed message;
    message.set_from(from);
    message.set_group(kWorld);
    message.mutable_offer()->set_tag(7);
    message.mutable_offer()->set_sequence(1);
    of(0).Hear(message);
  }
  of(1).Come(kWorld, 0, 7, 1);
  EXPECT_EQ(Await(7).from, 1);
}

TEST_F(OffersTest, ARunThatEndsLetsGo) {
  std::thread ends([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    runs_[0]->Fail(2, RankFailure::Kind::kOther, "rank 2: injected");
  });
  EXPECT_THROW(Await(7), PeerLost);
  ends.join();
}

}  // namespace offers_test
}  // namespace twofold::nccl
