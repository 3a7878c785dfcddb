#include "backends/control/call_log.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/control/testing.h"

namespace twofold::control {
namespace call_log_test {

uint64_t DigestOf(const std::vector<Communication>& calls) {
  CallLog log(Group({0, 1}), 0);
  for (const Communication& c : calls) log.Add(c);
  return log.LastPoint().digest();
}

TEST(CallLog, DigestsAreEqualForEqualHistoriesOnly) {
  Tensors t;
  const Communication a = t.AllReduce(10), b = t.AllReduce(11);
  EXPECT_EQ(DigestOf({a, b}), DigestOf({t.AllReduce(10), t.AllReduce(11)}));
  EXPECT_NE(DigestOf({a, b}), DigestOf({b, a}));
  EXPECT_NE(DigestOf({a}), DigestOf({a, a}));
  EXPECT_NE(DigestOf({a}), DigestOf({t.AllReduce(10, ReduceOp::kMax)}));
  EXPECT_NE(DigestOf({a}), DigestOf({t.AllReduce(10, ReduceOp::kSum, DType::kI32)}));
  EXPECT_NE(DigestOf({a}), DigestOf({t.Broadcast(10, 0)}));
  EXPECT_NE(DigestOf({t.Broadcast(10, 0)}), DigestOf({t.Broadcast(10, 1)}));
}

TEST(CallLog, BalancesCancelOutWhenWhatIsSentIsExpected) {
  Tensors t;
  const std::vector<std::vector<int64_t>> counts = {{1, 2, 3}, {4, 0, 6}, {7, 8, 9}};  // by sender, receiver
  auto sum = [&](int64_t wrong) {
    uint64_t total = 0;
    for (int r = 0; r < 3; ++r) {
      std::vector<int64_t> out;
      for (int from = 0; from < 3; ++from) out.push_back(counts[static_cast<size_t>(from)][static_cast<size_t>(r)]);
      if (r == 2) out[0] += wrong;
      CallLog log(Group({0, 1, 2}), r);
      log.Add(t.AllReduce(5));
      log.Add(t.AllToAllV(counts[static_cast<size_t>(r)], out));
      total += log.LastPoint().balance();
    }
    return total;
  };
  EXPECT_EQ(sum(0), 0u);
  EXPECT_NE(sum(1), 0u);
}

TEST(CallLog, TellsEveryPointWhereThereAreFewElseSome) {
  Tensors t;
  CallLog log(Group({0, 1}), 0);
  google::protobuf::RepeatedPtrField<Point> points;
  for (int i = 0; i < 3; ++i) log.Add(t.AllReduce(1));
  log.TakePoints(points);
  ASSERT_EQ(points.size(), 3);
  EXPECT_EQ(points[2].sequence(), 3u);
  points.Clear();
  log.TakePoints(points);
  EXPECT_TRUE(points.empty());
  for (int i = 0; i < 200; ++i) log.Add(t.AllReduce(1));
  log.TakePoints(points);
  ASSERT_EQ(points.size(), 3);  // 64, 128, 192
  EXPECT_EQ(points[0].sequence(), 64u);
}

TEST(CallLog, KeepsTheLastRecordsAndForgetsTheFirst) {
  Tensors t;
  CallLog log(Group({0, 1}), 0);
  const Communication c = t.AllReduce(7);
  for (size_t i = 0; i < CallLog::kKept + 10; ++i) log.Add(c);
  const GroupLog records = log.Records();
  EXPECT_EQ(records.first(), 11u);
  EXPECT_EQ(records.records_size(), static_cast<int>(CallLog::kKept));
  google::protobuf::RepeatedPtrField<Point> points;
  log.TakePoints(points);  // of those that are kept
  EXPECT_EQ(points[points.size() - 1].sequence(), CallLog::kKept);
}

TEST(CallLog, RecordsReadLikeCalls) {
  Tensors t;
  EXPECT_EQ(ToString(RecordOf(t.AllReduce(10, ReduceOp::kMax))), "all_reduce(max) of f32[10] (40 bytes)");
  EXPECT_EQ(ToString(RecordOf(t.Broadcast(4, 3))), "broadcast of f32[4] from root 3 (16 bytes)");
  EXPECT_EQ(ToString(RecordOf({.kind = Communication::kBarrier})), "barrier");
}

}  // namespace call_log_test
}  // namespace twofold::control
