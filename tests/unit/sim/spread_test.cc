#include "sim/spread.h"

#include <cmath>
#include <numbers>

#include "gtest/gtest.h"
#include "sim/timeline.h"

namespace twofold::sim {
namespace spread_test {

// Closed forms: of 2, 1/sqrt(pi) and sqrt(1 - 1/pi); of 3, 3/(2 sqrt(pi)).
TEST(SpreadTest, MaximumOfAFewNormals) {
  EXPECT_EQ(MaximumOf(1).mean, 0);
  EXPECT_EQ(MaximumOf(1).deviation, 1);
  EXPECT_NEAR(MaximumOf(2).mean, 1 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(MaximumOf(2).deviation, std::sqrt(1 - 1 / std::numbers::pi), 1e-9);
  EXPECT_NEAR(MaximumOf(3).mean, 1.5 / std::sqrt(std::numbers::pi), 1e-9);
}

// Tippett (1925), "On the extreme individuals and the range of samples", Biometrika 17, table of means.
TEST(SpreadTest, MaximumOfMany) {
  EXPECT_NEAR(MaximumOf(10).mean, 1.53875, 1e-5);
  EXPECT_NEAR(MaximumOf(100).mean, 2.50759, 1e-5);
  EXPECT_NEAR(MaximumOf(1000).mean, 3.24144, 1e-5);
  EXPECT_GT(MaximumOf(1000000).mean, 4.8);
  EXPECT_LT(MaximumOf(1000000).mean, 4.9);
}

TEST(SpreadTest, EqualArrivalsAreOneClassHoweverTheyAreListed) {
  const Arriving one = LastOf({{10, 0.1, 4}}), four = LastOf({{10, 0.1, 1}, {10, 0.1, 2}, {10, 0.1, 1}});
  EXPECT_EQ(one.mean, 10 + 0.1 * MaximumOf(4).mean);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.deviation, four.deviation);
}

// Rounding puts arrivals of other deviations between equal ones.
TEST(SpreadTest, RoundingDoesNotDivideClasses) {
  const double ulp = 2e-15;
  const Arriving two = LastOf({{10, 0.1, 3}, {10, 0.2, 5}}),
                 many = LastOf({{10, 0.1, 1}, {10 - ulp, 0.2, 2}, {10 - 2 * ulp, 0.1, 2}, {10 - 3 * ulp, 0.2, 3}});
  EXPECT_EQ(many.mean, two.mean);
  EXPECT_EQ(many.deviation, two.deviation);
  EXPECT_EQ(many.count, two.count);
}

// Neither do differences that stay while the clock goes on: whoever is equal in one step is equal in the next.
TEST(SpreadTest, WhenTheyArriveDoesNotMatter) {
  const auto last = [](double start, double apart) {
    return LastOf({{start + 2 * apart, 2.24e-6, 36}, {start + apart, 2.30e-6, 32}, {start, 2.24e-6, 12}});
  };
  for (const double apart : {1e-13, 1e-9}) {
    const Arriving soon = last(0.01, apart), late = last(1, apart);
    EXPECT_NEAR(late.mean - 1, soon.mean - 0.01, 1e-15);
    EXPECT_NEAR(late.deviation, soon.deviation, 1e-15);
  }
}

TEST(SpreadTest, ClarksFormulasForDifferentArrivals) {
  // Two normals of equal mean and deviations 3 and 4: the mean of the maximum is 5 / sqrt(2 pi).
  EXPECT_NEAR(LastOf({{100, 3, 1}, {100, 4, 1}}).mean, 100 + 5 / std::sqrt(2 * std::numbers::pi), 1e-9);
  // Far apart: the later one. Without a deviation: the later one exactly.
  EXPECT_NEAR(LastOf({{100, 1, 1}, {50, 1, 1}}).mean, 100, 1e-9);
  EXPECT_NEAR(LastOf({{100, 1, 1}, {50, 1, 1}}).deviation, 1, 1e-9);
  EXPECT_EQ(LastOf({{7, 0, 3}, {5, 0, 9}}).mean, 7);
}

TEST(SpreadTest, WhatAGroupHasInCommonDoesNotKeepItWaiting) {
  Spread s{.own = 2, .shared = 5, .group = 1};
  EXPECT_EQ(s.Within(1), 2);
  EXPECT_EQ(s.Within(2), 7);
  const NormalMaximum slowest{.mean = 1.5, .deviation = 0.5};
  EXPECT_EQ(AfterMeeting(s, 2, slowest, 1, false), (Spread{.own = 0, .shared = 6, .group = 1, .slowest = 1.5}));
  EXPECT_EQ(AfterMeeting(s, 7, slowest, 2, false), (Spread{.own = 0, .shared = 3.5, .group = 2, .slowest = 1.5}));
  EXPECT_EQ(AfterMeeting(s, 7, slowest, 2, true).Within(1), 0);
}

// The slowest is 2 deviations late: of a deviation of 3 s it is 6 s late. After the average one has waited for 4 s, it
// is 2 s late, so the deviation is 1 s; after 6 s, all are where the point is.
TEST(SpreadTest, WhoIsLateWaitsForLess) {
  const Spread s{.own = 3}, point{.own = 0, .shared = 0, .group = 4, .slowest = 2};
  EXPECT_EQ(AfterWaiting(s, 4, point).own, 1);
  EXPECT_EQ(AfterWaiting(s, 6, point), point);
  EXPECT_EQ(AfterWaiting(s, 0, Spread{.own = 2}).own, 3) << "both at once: the wider one";
  const Spread both{.own = 1, .shared = 2, .group = 5, .slowest = 1};
  EXPECT_EQ(AfterWaiting(both, 2, point).Within(4), 2) << "what was in common is lateness like any other";
  EXPECT_EQ(AfterWaiting(both, 1, Spread{.group = 5, .slowest = 2}), (Spread{0.5, 2, 5, 1}))
      << "except for its own group";
}

// A host has no lateness of its own. The device still knows by how many deviations its slowest rank is late, so that
// the next wait is counted, too: 6 s late, then 4 s, then 1 s.
TEST(SpreadTest, WhoWaitsForItsHostStaysLate) {
  const Spread s{.own = 3, .slowest = 2}, host;
  const Spread once = AfterWaiting(s, 2, host), twice = AfterWaiting(once, 3, host);
  EXPECT_EQ(once, (Spread{.own = 2, .slowest = 2}));
  EXPECT_EQ(twice, (Spread{.own = 0.5, .slowest = 2}));
  EXPECT_EQ(AfterWaiting(twice, 100, host), (Spread{.slowest = 2}));
}

// The same from spans that are on the line before the point that they wait for is known.
TEST(SpreadTest, WhoIsQueuedAndWaitsForItsHostStaysLate) {
  const Spread met{.group = 4, .slowest = 2};
  const auto last = [&](double met_at) {
    auto line = std::make_shared<Timeline>();
    auto meeting = std::make_shared<TimePoint>();
    line->WaitFor(meeting);
    line->Advance(1, 10, {}, {}, {.deviation = 3, .issuer = {.slowest = 2}});  // until 11, its slowest until 17
    line->Advance(1, 13, {}, {}, {});                                          // the host is 2 s late
    meeting->Resolve(met_at, met);
    return std::make_pair(line->time(), line->spread());
  };
  EXPECT_EQ(last(1).first, 14);
  EXPECT_EQ(last(1).second.own, 2);
  EXPECT_EQ(last(20).first, 22) << "the host was early";
  EXPECT_EQ(last(20).second.own, 3);
}

// Whether spans are passed at once, added up in the queue, or kept in it one by one since they are traced.
TEST(SpreadTest, HowSpansAreKeptMakesNoDifference) {
  const auto end = [](bool queued, bool traced) {
    auto line = std::make_shared<Timeline>();
    if (traced) line->SetTracer([](auto...) {});
    const std::string_view name = traced ? "kernel" : "";
    auto met = std::make_shared<TimePoint>();
    if (!queued) met->Resolve(3, {.own = 0.5, .shared = 2, .group = 8, .slowest = 1});
    line->WaitFor(met);
    line->Advance(1, 0, name, {}, {.deviation = 0.5, .issuer = {}});
    line->Advance(1, 2.5, name, {},
                  {.deviation = 0.5, .issuer = {.own = 7, .slowest = 1}});  // the host came before, its slowest not
    line->Advance(1, 5.5, name, {}, {.deviation = 0.25, .issuer = {.own = 1, .slowest = 1}});  // it is late
    line->Advance(1, 6, name, {}, {.deviation = 0.25, .issuer = {.own = 0.5, .slowest = 1}});
    if (queued) met->Resolve(3, {.own = 0.5, .shared = 2, .group = 8, .slowest = 1});
    return std::make_pair(line->time(), line->spread());
  };
  const auto expected = end(false, false);
  EXPECT_DOUBLE_EQ(expected.first, 7.5);
  EXPECT_DOUBLE_EQ(expected.second.own, 6);
  for (const auto& [queued, traced] : {std::pair(true, false), std::pair(true, true), std::pair(false, true)}) {
    const auto [time, spread] = end(queued, traced);
    EXPECT_DOUBLE_EQ(time, expected.first) << queued << traced;
    EXPECT_DOUBLE_EQ(spread.own, expected.second.own) << queued << traced;
    EXPECT_DOUBLE_EQ(spread.shared, expected.second.shared) << queued << traced;
    EXPECT_EQ(spread.group, expected.second.group) << queued << traced;
  }
}

TEST(SpreadTest, ALineHasTheSpreadOfWhatItWaitedForLast) {
  auto line = std::make_shared<Timeline>();
  line->Advance(1, 0, {}, {}, {.deviation = 0.25, .issuer = {}});
  EXPECT_EQ(line->spread().own, 0.25);
  line->WaitFor(std::make_shared<TimePoint>(0.5, Spread{.own = 9}));  // had come before: its spread is absorbed
  EXPECT_EQ(line->spread().own, 0.25);
  auto later = std::make_shared<TimePoint>();
  line->WaitFor(later);
  line->Advance(1, 0, {}, {}, {.deviation = 0.5, .issuer = {}});
  line->Advance(1, 2.5, {}, {}, {.deviation = 0.5, .issuer = {.own = 7}});
  later->Resolve(3, {.own = 0, .shared = 2, .group = 8, .slowest = 1});
  EXPECT_EQ(line->time(), 5);
  // The host let the last span end 1.5 s before that, for the average rank; its slowest is 7.5 s late.
  EXPECT_EQ(line->spread(), (Spread{.own = 6, .slowest = 1}));
  line->Advance(1, 100, {}, {}, {.deviation = 0.5, .issuer = {.own = 7}});  // the host was late
  EXPECT_EQ(line->spread(), (Spread{.own = 7.5, .slowest = 1}));
  line->Together();
  EXPECT_EQ(line->spread(), (Spread{.slowest = 1}));
}

}  // namespace spread_test
}  // namespace twofold::sim
