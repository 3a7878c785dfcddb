#include "sim/timeline.h"

#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

namespace twofold::sim {
namespace timeline_test {

TEST(TimelineTest, DurationsAddUp) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  line.Advance(1.5);
  line.Advance(0.5);
  EXPECT_EQ(line.time(), 2.0);
  line.Advance(1.0, 10.0);  // not before 10
  EXPECT_EQ(line.time(), 11.0);
  EXPECT_EQ(line.stalled(), 0);
}

TEST(TimelineTest, WaitingForTheFutureIsAStall) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  line.Advance(1);
  line.WaitFor(std::make_shared<TimePoint>(4.0));
  EXPECT_EQ(line.time(), 4);
  EXPECT_EQ(line.stalled(), 3);
  line.WaitFor(std::make_shared<TimePoint>(2.0));  // already past
  EXPECT_EQ(line.time(), 4);
  EXPECT_EQ(line.stalled(), 3);
}

TEST(TimelineTest, StopsAtAnUnknownPointAndGoesOnWhenItIsKnown) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  auto point = std::make_shared<TimePoint>();
  line.Advance(1);
  line.WaitFor(point);
  line.Advance(2);
  line.Advance(1, 20);
  auto after = line.Record();
  double called = -1;
  line.Call([&](double t) { called = t; });
  EXPECT_TRUE(line.blocked());
  EXPECT_FALSE(after->known());
  EXPECT_EQ(called, -1);
  point->Resolve(5);
  EXPECT_FALSE(line.blocked());
  EXPECT_EQ(line.time(), 21);
  EXPECT_EQ(after->time(), 21);
  EXPECT_EQ(called, 21);
  EXPECT_EQ(line.stalled(), 4);
}

TEST(TimelineTest, QueuedStretchesGiveWhatImmediateOnesWould) {
  const std::vector<std::pair<double, double>> stretches = {{1, 0}, {2, 8}, {0.5, 3}, {4, 11}, {1, 12}};
  for (double resolved : {0.0, 5.0, 9.0, 30.0}) {
    auto owned = std::make_shared<Timeline>(), other = std::make_shared<Timeline>();
    Timeline &now = *owned, &later = *other;
    auto point = std::make_shared<TimePoint>();
    later.WaitFor(point);
    now.WaitFor(std::make_shared<TimePoint>(resolved));
    for (auto [d, not_before] : stretches) now.Advance(d, not_before), later.Advance(d, not_before);
    point->Resolve(resolved);
    EXPECT_DOUBLE_EQ(now.time(), later.time()) << resolved;
  }
}

TEST(TimelineTest, ChainsOfUnknownPoints) {
  auto owned = std::make_shared<Timeline>(), other = std::make_shared<Timeline>();
  Timeline &a = *owned, &b = *other;
  auto first = std::make_shared<TimePoint>();
  a.WaitFor(first);
  a.Advance(1);
  b.WaitFor(a.Record());
  b.Advance(1);
  auto second = std::make_shared<TimePoint>();
  b.WaitFor(second);
  first->Resolve(3);
  EXPECT_EQ(a.time(), 4);
  EXPECT_TRUE(b.blocked());
  second->Resolve(4.5);  // before b gets there at 5
  EXPECT_EQ(b.time(), 5);
}

TEST(TimelineTest, TracedSpansKnowTheirPlace) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  std::vector<std::tuple<std::string, std::string, double, double>> spans;
  line.SetTracer([&](std::string_view name, std::string_view, std::string_view shape, double s, double e) {
    spans.emplace_back(name, shape, s, e);
  });
  auto point = std::make_shared<TimePoint>();
  line.Advance(1, 0, "before", {}, {}, "3 x 4");
  line.WaitFor(point);
  line.Advance(2, 0, "after", {}, {}, "5 x 6");
  ASSERT_EQ(spans.size(), 1u);
  point->Resolve(7);
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0], std::tuple("before", "3 x 4", 0.0, 1.0));
  EXPECT_EQ(spans[1], std::tuple("after", "5 x 6", 7.0, 9.0));
}

TEST(TimelineTest, TracedWaitsAreThoseWithANameThatCost) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  std::vector<std::tuple<std::string, double, double>> waits;
  line.SetTracer([](std::string_view, std::string_view, std::string_view, double, double) {},
                 [&](std::string_view name, double s, double e) { waits.emplace_back(name, s, e); });
  auto point = std::make_shared<TimePoint>();
  line.Advance(1);
  line.WaitFor(point, "unknown at first");
  line.Advance(1);
  line.WaitFor(std::make_shared<TimePoint>(5.0), "past");
  line.WaitFor(std::make_shared<TimePoint>(9.0));
  line.WaitFor(std::make_shared<TimePoint>(10.0), "known");
  EXPECT_TRUE(waits.empty());
  point->Resolve(6);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0], std::tuple("unknown at first", 1.0, 6.0));
  EXPECT_EQ(waits[1], std::tuple("known", 9.0, 10.0));
  EXPECT_EQ(line.stalled(), 5 + 2 + 1);
}

// A rank that fails in the middle of what its line does drops the rest.
TEST(TimelineTest, IsResetByOneOfItsOwnCalls) {
  auto owned = std::make_shared<Timeline>();
  Timeline& line = *owned;
  auto point = std::make_shared<TimePoint>(), later = std::make_shared<TimePoint>();
  bool dropped = true;
  double went_on = 0;
  line.WaitFor(point);
  line.Call([&](double) {
    line.Reset(9);
    line.WaitFor(later);
    line.Advance(1);
  });
  line.Advance(5);
  line.Call([&](double) { dropped = false; });
  point->Resolve(2);
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(line.blocked());
  line.Call([&](double time) { went_on = time; });
  later->Resolve(11);
  EXPECT_TRUE(dropped);
  EXPECT_EQ(went_on, 12);
  EXPECT_EQ(line.time(), 12);
}

}  // namespace timeline_test
}  // namespace twofold::sim
