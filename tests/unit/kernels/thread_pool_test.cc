#include "kernels/cpu/thread_pool.h"

#include <mutex>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::cpu {
namespace thread_pool_test {

using Range = std::pair<int64_t, int64_t>;

std::set<Range> Parts(ThreadPool& pool, int64_t n, int64_t grain) {
  std::mutex mutex;
  std::set<Range> parts;
  pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    parts.insert({begin, end});
  });
  return parts;
}

TEST(ThreadPool, PartsAreFixedByTheNumbersAlone) {
  ThreadPool pool(3);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(Parts(pool, 10, 1), testing::ElementsAre(Range(0, 4), Range(4, 8), Range(8, 10)));
    EXPECT_THAT(Parts(pool, 10, 4), testing::ElementsAre(Range(0, 4), Range(4, 8), Range(8, 10)));
    EXPECT_THAT(Parts(pool, 10, 6), testing::ElementsAre(Range(0, 6), Range(6, 10)));
    EXPECT_THAT(Parts(pool, 4, 4), testing::ElementsAre(Range(0, 4)));
    EXPECT_THAT(Parts(pool, 0, 4), testing::IsEmpty());
  }
}

TEST(ThreadPool, OneThreadIsTheCaller) {
  ThreadPool pool(1);
  std::thread::id seen;
  pool.ParallelFor(100, 1, [&](int64_t, int64_t) { seen = std::this_thread::get_id(); });
  EXPECT_EQ(seen, std::this_thread::get_id());
}

TEST(ThreadPool, EveryElementIsVisitedOnceInEveryRound) {
  ThreadPool pool(4);
  std::vector<int> counts(1000);
  for (int round = 1; round <= 2000; ++round) {
    pool.ParallelFor(1000, 7, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++counts[static_cast<size_t>(i)];
    });
    ASSERT_THAT(counts, testing::Each(round));
  }
}

TEST(ThreadPool, SumsOfPartsAreAddedInOrder) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int64_t n : {0, 1, 9, 1000}) {
      const double sum = pool.ParallelSum(n, 3, [](int64_t begin, int64_t end) {
        double s = 0;
        for (int64_t i = begin; i < end; ++i) s += static_cast<double>(i);
        return s;
      });
      EXPECT_EQ(sum, static_cast<double>(n) * static_cast<double>(n - 1) / 2);
    }
  }
}

TEST(ThreadPoolDeathTest, NeedsAThread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(ThreadPool(0), "0 against 1");
}

}  // namespace thread_pool_test
}  // namespace twofold::cpu
