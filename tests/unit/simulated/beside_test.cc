#include "backends/simulated/beside.h"

#include "gtest/gtest.h"

namespace twofold {
namespace beside_test {

// Takes half of the device: everything beside it takes twice as long.
constexpr BesideIt kHalf{.multiprocessors = 50, .bytes_per_second = 0};
double Slowdown(const BesideIt& takes) { return 100 / (100 - takes.multiprocessors); }
int streams[2];

TEST(Communicating, OperationsTakeLongerWhileItLasts) {
  Communicating all;
  EXPECT_EQ(all.Take(3, Slowdown), 3);
  all.Began(&streams[0], 4, kHalf);
  EXPECT_EQ(all.Take(1, Slowdown), 2);
  EXPECT_EQ(all.Take(3, Slowdown), 4) << "2 s beside it, in which 1 s of work is done, and 2 s of work alone";
  EXPECT_TRUE(all.none());
  EXPECT_EQ(all.Take(1, Slowdown), 1);
}

TEST(Communicating, FollowOneAnother) {
  Communicating all;
  all.Began(&streams[0], 2, kHalf);
  all.Began(&streams[1], 3, {.multiprocessors = 75, .bytes_per_second = 0});
  EXPECT_EQ(all.Take(2, Slowdown), 2 + 3 + 0.25) << "1 s and 3/4 s of work beside them, and 1/4 s alone";
}

TEST(Communicating, EndsWhenTheStreamHasWaitedForIt) {
  Communicating all;
  const uint64_t first = all.Began(&streams[0], 2, kHalf), second = all.Began(&streams[0], 2, kHalf);
  all.Ended(second);  // and with it the first
  EXPECT_TRUE(all.none());
  all.Ended(first);
  EXPECT_EQ(all.Take(1, Slowdown), 1);
}

TEST(Communicating, WaitingForOneIsTimeForTheOthers) {
  Communicating all;
  all.Began(&streams[0], 5, kHalf);
  const uint64_t blocking = all.Began(&streams[1], 3, kHalf);
  all.Ended(blocking);
  EXPECT_EQ(all.Take(10, Slowdown), 2 + 9) << "2 s of the first are left";
}

// Of ranks that one stands for, some are without it: it may only add to what that one takes.
TEST(Communicating, ABriefOneLeavesTheOthersAsTheyAre) {
  Communicating with, without;
  for (Communicating* all : {&with, &without}) all->Began(&streams[0], 3, kHalf);
  const uint64_t brief = with.Began(&streams[1], 1, kHalf, /*brief=*/true);
  EXPECT_DOUBLE_EQ(without.Take(1, Slowdown), 2);
  EXPECT_DOUBLE_EQ(with.Take(1, Slowdown), 2.5) << "half a second of its work takes a second beside the brief one";
  EXPECT_DOUBLE_EQ(with.SlowedBriefly(), 0.5);
  EXPECT_DOUBLE_EQ(with.SlowedBriefly(), 0);
  with.Ended(brief);  // the time that it had left does not pass for the others
  EXPECT_DOUBLE_EQ(with.left(), without.left());
  EXPECT_DOUBLE_EQ(with.Take(1, Slowdown), without.Take(1, Slowdown));
}

TEST(Communicating, WhatTakesNothingIsBesideNothing) {
  Communicating all;
  all.Began(&streams[0], 5, {});
  all.Began(&streams[0], 0, kHalf);
  EXPECT_TRUE(all.none());
}

}  // namespace beside_test
}  // namespace twofold
