#include "core/memory/ledger.h"

#include <vector>

#include "gtest/gtest.h"

namespace twofold {
namespace ledger_test {

TEST(Ledger, KeepsPeaksByCategoryAndTheirSplitAtThePeak) {
  MemoryLedger ledger;
  ledger.OnAllocate(Bytes(100), Bytes(100), Category::kParameters);
  ledger.OnAllocate(Bytes(50), Bytes(50), Category::kActivations);
  ledger.OnFree(Bytes(50), Bytes(50), Category::kActivations);
  ledger.OnAllocate(Bytes(70), Bytes(70), Category::kGradients);  // the peak: 170
  ledger.OnFree(Bytes(70), Bytes(70), Category::kGradients);
  ledger.OnAllocate(Bytes(60), Bytes(60), Category::kActivations);
  const MemoryStats& s = ledger.stats();
  EXPECT_EQ(s.live, Bytes(160));
  EXPECT_EQ(s.peak, Bytes(170));
  auto of = [](const auto& values, Category c) { return values[static_cast<size_t>(c)]; };
  EXPECT_EQ(of(s.peak_by_category, Category::kActivations), Bytes(60));
  EXPECT_EQ(of(s.at_peak, Category::kActivations), Bytes(0));
  EXPECT_EQ(of(s.at_peak, Category::kGradients), Bytes(70));
  EXPECT_EQ(of(s.live_by_category, Category::kParameters), Bytes(100));
}

TEST(Ledger, KnowsWhatWasAskedForOfWhatIsLive) {
  MemoryLedger ledger;
  ledger.OnAllocate(Bytes(512), Bytes(100), Category::kParameters);
  ledger.OnAllocate(Bytes(1024), Bytes(1000), Category::kGradients);
  ledger.OnAllocate(Bytes(512), Bytes(0), Category::kParameters);
  ledger.OnFree(Bytes(1024), Bytes(1000), Category::kGradients);
  const auto& requested = ledger.stats().requested_by_category;
  EXPECT_EQ(requested[static_cast<size_t>(Category::kParameters)], Bytes(100));
  EXPECT_EQ(requested[static_cast<size_t>(Category::kGradients)], Bytes(0));
}

TEST(Ledger, ReservedIsCountedApart) {
  MemoryLedger ledger;
  ledger.OnReserve(MiB(2));
  ledger.OnReserve(MiB(20));
  ledger.OnRelease(MiB(20));
  EXPECT_EQ(ledger.stats().reserved, MiB(2));
  EXPECT_EQ(ledger.stats().peak_reserved, MiB(22));
  EXPECT_EQ(ledger.stats().live, Bytes(0));
}

TEST(Ledger, ObserverSeesEveryChangeUntilRemoved) {
  MemoryLedger ledger;
  std::vector<int64_t> seen;
  ledger.SetObserver([&](const MemoryStats& s) { seen.push_back(s.live.value()); });
  ledger.OnAllocate(Bytes(5), Bytes(5), Category::kOther);
  ledger.OnFree(Bytes(5), Bytes(5), Category::kOther);
  ledger.SetObserver(nullptr);
  ledger.OnAllocate(Bytes(7), Bytes(7), Category::kOther);
  EXPECT_EQ(seen, (std::vector<int64_t>{5, 0}));
}

}  // namespace ledger_test
}  // namespace twofold
