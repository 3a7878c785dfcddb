#include "strategies/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "core/proto/report.pb.h"

namespace twofold {
namespace recorder_test {

MemoryStats Live(int64_t bytes) {
  MemoryStats stats;
  stats.live = Bytes(bytes);
  stats.reserved = Bytes(2 * bytes);
  stats.live_by_category[static_cast<size_t>(Category::kActivations)] = Bytes(bytes);
  return stats;
}

report::RankRecord Written(const MemorySamples& samples, double origin = 0) {
  report::RankRecord record;
  samples.WriteTo(Seconds(origin), record);
  return record;
}

int64_t Activations(const report::MemorySample& s) {
  return s.live_by_category(static_cast<int>(Category::kActivations));
}

void Add(MemorySamples& samples, double time, const MemoryStats& stats) {
  samples.Change(stats);
  samples.Reached(Seconds(time));
}

TEST(MemorySamples, KeepsEveryChangeUpToTheLimit) {
  MemorySamples samples(8);
  for (int i = 0; i < 8; ++i) Add(samples, 10 + i, Live(100 - i));
  const report::RankRecord record = Written(samples, 10);
  ASSERT_EQ(record.samples_size(), 8);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(record.samples(i).time(), i);
    EXPECT_EQ(Activations(record.samples(i)), 100 - i);
    EXPECT_EQ(record.samples(i).reserved(), 2 * (100 - i));
  }
}

// Whatever is merged, the line keeps its highest point, stays in order and within the limit.
TEST(MemorySamples, KeepsTheHighestPointHoweverMuchIsMerged) {
  for (const size_t limit : {2, 7, 8, 100}) {
    for (const int peak_at : {0, 1, 499, 998, 999}) {
      MemorySamples samples(limit);
      for (int i = 0; i < 1000; ++i) Add(samples, i, Live(i == peak_at ? 5000 : 1000 + i % 7));
      const report::RankRecord record = Written(samples);
      ASSERT_LE(record.samples_size(), static_cast<int>(limit));
      ASSERT_GE(record.samples_size(), static_cast<int>(limit) / 2);
      int64_t highest = 0;
      for (int i = 0; i < record.samples_size(); ++i) {
        highest = std::max(highest, Activations(record.samples(i)));
        if (i > 0) {
          EXPECT_LT(record.samples(i - 1).time(), record.samples(i).time());
        }
      }
      EXPECT_EQ(highest, 5000) << "limit " << limit << ", peak at " << peak_at;
    }
  }
}

// A device that runs behind the host: changes keep their order, and those that it never reaches stand at the end.
TEST(MemorySamples, StandWhereTheDeviceReachesThem) {
  MemorySamples samples(8);
  for (const int64_t bytes : {1, 2, 3, 4}) samples.Change(Live(bytes));
  samples.Reached(Seconds(5)), samples.Reached(Seconds(7));
  EXPECT_EQ(samples.size(), 2u);
  samples.Finish(Seconds(6));   // the host's time
  samples.Reached(Seconds(9));  // of a change that has its place already
  const report::RankRecord record = Written(samples, 1);
  ASSERT_EQ(record.samples_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Activations(record.samples(i)), i + 1);
    EXPECT_EQ(record.samples(i).time(), i == 0 ? 4 : 6);
  }
}

}  // namespace recorder_test
}  // namespace twofold
