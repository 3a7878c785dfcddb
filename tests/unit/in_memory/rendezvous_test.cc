// The lock-free part of a collective: every share is done once, and a round is over or void for everybody.
#include "backends/in_memory/rendezvous.h"

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace twofold::in_memory {
namespace rendezvous_test {

Call Barrier(uint64_t sequence) { return {.communication = {.kind = Communication::kBarrier}, .sequence = sequence}; }

TEST(Rendezvous, ARoundIsOverWhenAllSharesAreDone) {
  Rendezvous r(2);
  const Call call = Barrier(1);
  EXPECT_FALSE(r.HasArrived(0, 1));
  r.Arrive(0, 1, call);
  EXPECT_TRUE(r.HasArrived(0, 1));
  EXPECT_FALSE(r.AllArrived(1));
  r.Arrive(1, 1, call);
  EXPECT_TRUE(r.AllArrived(1));
  EXPECT_TRUE(r.Claim(0, 1));
  EXPECT_FALSE(r.Claim(0, 1)) << "once";
  r.Finish(0, 1);
  EXPECT_FALSE(r.IsOver(1));
  EXPECT_TRUE(r.Claim(1, 1)) << "by whomever";
  r.Finish(1, 1);
  EXPECT_TRUE(r.IsOver(1));
  EXPECT_FALSE(r.IsVoid(1));
}

TEST(Rendezvous, WhoGivesUpLeavesNothingToClaim) {
  Rendezvous r(3);
  const Call call = Barrier(1);
  r.Arrive(0, 1, call);
  EXPECT_TRUE(r.VoidWhatIsLeft(1));
  for (int share = 0; share < 3; ++share) EXPECT_FALSE(r.Claim(share, 1));
  EXPECT_TRUE(r.IsOver(1));
  EXPECT_TRUE(r.IsVoid(1));
}

TEST(Rendezvous, WhoGivesUpTooLateFindsTheRoundDone) {
  Rendezvous r(2);
  const Call call = Barrier(1);
  for (int rank : {0, 1}) r.Arrive(rank, 1, call);
  for (int share : {0, 1}) {
    ASSERT_TRUE(r.Claim(share, 1));
    r.Finish(share, 1);
  }
  EXPECT_FALSE(r.VoidWhatIsLeft(1));
  EXPECT_FALSE(r.IsVoid(1));
}

TEST(Rendezvous, WhoGivesUpWaitsForTheShareThatSomebodyIsDoing) {
  Rendezvous r(2);
  const Call call = Barrier(1);
  for (int rank : {0, 1}) r.Arrive(rank, 1, call);
  ASSERT_TRUE(r.Claim(1, 1));
  std::atomic<bool> finished = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    finished = true;
    r.Finish(1, 1);
  });
  EXPECT_TRUE(r.VoidWhatIsLeft(1));
  EXPECT_TRUE(finished);
  other.join();
}

TEST(Rendezvous, RanksOneRoundApartDoNotDisturbEachOther) {
  Rendezvous r(2);
  const Call first = Barrier(1), second = Barrier(2);
  for (int rank : {0, 1}) r.Arrive(rank, 1, first);
  r.Arrive(0, 2, second);  // rank 1 still looks at the first
  EXPECT_TRUE(r.AllArrived(1));
  EXPECT_EQ(r.arrival(0, 1).call, &first);
  EXPECT_FALSE(r.AllArrived(2));
}

// Rank 1 still looks at round 1, whose shares rank 0 has done, while rank 0 gives up in round 2.
TEST(Rendezvous, WhoIsBehindClaimsNothing) {
  Rendezvous r(2);
  const Call first = Barrier(1), second = Barrier(2);
  for (int rank : {0, 1}) r.Arrive(rank, 1, first);
  for (int share : {0, 1}) {
    ASSERT_TRUE(r.Claim(share, 1));
    r.Finish(share, 1);
  }
  r.Arrive(0, 2, second);
  EXPECT_TRUE(r.VoidWhatIsLeft(2));
  for (int share : {0, 1}) EXPECT_FALSE(r.Claim(share, 1));
  EXPECT_TRUE(r.IsOver(1));
  EXPECT_FALSE(r.IsVoid(1));
  EXPECT_TRUE(r.IsVoid(2));
}

// A rank with several calls in its queue gives up in all of them before another one looks at the first.
TEST(Rendezvous, ARoundStaysVoidWhenLaterOnesAreVoided) {
  Rendezvous r(3);
  const Call calls[] = {Barrier(1), Barrier(2), Barrier(3)};
  for (const Call& call : calls) {
    r.Arrive(0, call.sequence, call);
    EXPECT_TRUE(r.VoidWhatIsLeft(call.sequence));
  }
  for (const Call& call : calls) {
    r.Arrive(1, call.sequence, call);
    EXPECT_TRUE(r.VoidWhatIsLeft(call.sequence)) << "round " << call.sequence;
    EXPECT_TRUE(r.IsVoid(call.sequence)) << "round " << call.sequence;
  }
}

// Every thread takes any share it can get; what they write without atomics is seen by all in the next round.
TEST(Rendezvous, SharesAreDoneOnceAndSeenByAll) {
  constexpr int kRanks = 4;
#ifdef TWOFOLD_SANITIZED
  constexpr uint64_t kRounds = 300;
#else
  constexpr uint64_t kRounds = 2000;
#endif
  Rendezvous r(kRanks);
  std::array<uint64_t, kRanks> done{};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      for (uint64_t round = 1; round <= kRounds; ++round) {
        const Call call = Barrier(round);
        r.Arrive(rank, round, call);
        while (!r.AllArrived(round)) std::this_thread::yield();
        for (int i = 0; i < kRanks; ++i) {
          const int share = (rank + i) % kRanks;
          if (!r.Claim(share, round)) continue;
          ++done[static_cast<size_t>(share)];
          r.Finish(share, round);
        }
        while (!r.IsOver(round)) std::this_thread::yield();
        for (uint64_t n : done) ASSERT_EQ(n, round);  // nobody writes before this rank has arrived again
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (uint64_t n : done) EXPECT_EQ(n, kRounds);
}

}  // namespace rendezvous_test
}  // namespace twofold::in_memory
