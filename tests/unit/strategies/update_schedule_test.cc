// Which gradient goes into which update: the bound is kept, and nothing is lost or stuck, whoever is fast.
#include "strategies/async_sgd/update_schedule.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "core/base/strings.h"

namespace twofold {
namespace {

TEST(UpdateSchedule, WithoutStalenessEveryWorkerGivesOneGradientAnUpdate) {
  UpdateSchedule s({.workers = 3, .updates = 2, .staleness = 0});
  for (int update = 0; update < 2; ++update) {
    for (int w = 0; w < 3; ++w) s.Start(w);
    for (const int w : {2, 0}) {
      EXPECT_EQ(s.Take(w), 0);
      EXPECT_FALSE(s.MayStart()) << "the place is worker 1's";
    }
    EXPECT_FALSE(s.complete());
    EXPECT_EQ(s.Take(1), 0);
    EXPECT_TRUE(s.complete());
    EXPECT_FALSE(s.MayStart()) << "on parameters of before the update";
    s.Update();
  }
  EXPECT_FALSE(s.MayStart()) << "no update would take it";
}

// Worker 1 is slow. Worker 0 gives all gradients, until a place must be kept for worker 1.
TEST(UpdateSchedule, PlacesAreKeptForGradientsThatAreDue) {
  UpdateSchedule s({.workers = 2, .updates = 10, .staleness = 2});
  s.Start(0), s.Start(1);
  for (int update = 0; update < 2; ++update) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_LE(s.Take(0), 1);
      if (!s.complete()) s.Start(0);
    }
    s.Update();
    s.Start(0);
  }
  EXPECT_EQ(s.Take(0), 0);  // in update 2, worker 1's gradient is due
  s.Start(0);
  EXPECT_FALSE(s.MayTake(0));
  EXPECT_TRUE(s.MayTake(1));
  EXPECT_EQ(s.Take(1), 2);
  EXPECT_TRUE(s.complete());
}

TEST(UpdateSchedule, WithoutABoundNobodyWaitsBeforeTheEnd) {
  UpdateSchedule s({.workers = 2, .updates = 5, .staleness = std::nullopt});
  s.Start(0), s.Start(1);
  for (int update = 0; update < 4; ++update) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(s.MayTake(0)) << update;
      s.Take(0);
      if (i == 0) s.Start(0);
    }
    s.Update();
    ASSERT_TRUE(s.MayStart());
    s.Start(0);
  }
  EXPECT_EQ(s.Take(0), 0);
  EXPECT_FALSE(s.MayStart()) << "the last place is worker 1's";
  EXPECT_EQ(s.Take(1), 4);
}

// Workers of random speeds, which change: a gradient takes a random time of its own.
TEST(UpdateSchedule, KeepsItsPromisesWhoeverIsFast) {
  std::mt19937_64 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    const int workers = 1 + static_cast<int>(random() % 6);
    const int64_t updates = 1 + static_cast<int64_t>(random() % 12);
    const std::optional<int64_t> bound =
        random() % 4 == 0 ? std::nullopt : std::optional<int64_t>(static_cast<int64_t>(random() % 5));
    SCOPED_TRACE(StrCat("trial ", trial, ": ", workers, " workers, ", updates, " updates, bound ", bound.value_or(-1)));
    UpdateSchedule s({.workers = workers, .updates = updates, .staleness = bound});
    std::vector<uint64_t> speed(static_cast<size_t>(workers)), ready(speed.size());
    for (uint64_t& each : speed) each = 1 + random() % 50;
    int64_t started = 0, taken = 0, in_update = 0;
    uint64_t now = 0;
    while (s.done() < updates) {
      for (int w = 0; w < workers; ++w) {
        if (s.computes(w) || !s.MayStart()) continue;
        s.Start(w), ++started;
        ready[static_cast<size_t>(w)] = now + speed[static_cast<size_t>(w)] + random() % 10;
      }
      int next = -1;
      for (int w = 0; w < workers; ++w) {
        if (s.MayTake(w) && (next < 0 || ready[static_cast<size_t>(w)] < ready[static_cast<size_t>(next)])) next = w;
      }
      ASSERT_GE(next, 0) << "stuck after " << s.done() << " updates";
      now = std::max(now, ready[static_cast<size_t>(next)]);
      const int64_t staleness = s.Take(next);
      ++taken, ++in_update;
      ASSERT_GE(staleness, 0);
      if (bound) {
        ASSERT_LE(staleness, *bound);
      }
      if (!s.complete()) continue;
      ASSERT_EQ(in_update, workers);
      in_update = 0;
      s.Update();
    }
    ASSERT_EQ(started, workers * updates) << "none was begun in vain";
    ASSERT_EQ(taken, started);
  }
}

TEST(UpdateSchedule, SkippedUpdatesChangeNoAges) {
  UpdateSchedule s({.workers = 1, .updates = 100, .staleness = 1});
  s.Start(0);
  s.Skip(40);
  EXPECT_EQ(s.done(), 40);
  EXPECT_EQ(s.Take(0), 0);
}

}  // namespace
}  // namespace twofold
