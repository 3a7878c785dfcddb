// What links carry over time: bins sum to the bytes that flows move, whatever flows meet, and say when.
#include "sim/link_history.h"

#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "gmock/gmock.h"
#include "sim/flows.h"
#include "tests/seed.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TimeBinsTest, BytesAreWhereTheyCross) {
  TimeBins bins;
  bins.Add(0, 2 * TimeBins::kLeastWidth, 8);
  bins.Add(TimeBins::kLeastWidth, TimeBins::kLeastWidth, 1);  // at once
  EXPECT_THAT(bins.bytes(), ElementsAre(4, 5));
  bins.Add(2.5 * TimeBins::kLeastWidth, 4 * TimeBins::kLeastWidth, 3);
  EXPECT_THAT(bins.bytes(), ElementsAre(4, 5, 1, 2));
}

TEST(TimeBinsTest, WidthDoublesAndNothingIsLost) {
  TimeBins bins;
  double sum = 0, time = 0;
  for (int i = 0; i < 5000; ++i) {
    const double length = 1e-6 * (1 + i % 7);
    bins.Add(time, time + length, i), sum += i, time += 2 * length;
  }
  EXPECT_NEAR(bins.Sum(), sum, 1e-9 * sum);
  EXPECT_LE(bins.bytes().size(), TimeBins::kMost);
  EXPECT_GT(bins.bytes().size(), TimeBins::kMost / 4);
  EXPECT_GE(bins.width() * static_cast<double>(bins.bytes().size()), time - 2e-5);
}

class Clock {
 public:
  double now() const { return now_; }
  void At(double time, std::function<void()> fn) {
    if (time <= now_) return fn();
    queue_.emplace(std::pair(time, asked_++), std::move(fn));
  }
  void Run() {
    while (!queue_.empty()) {
      const auto next = queue_.extract(queue_.begin());
      now_ = next.key().first;
      next.mapped()();
    }
  }

 private:
  double now_ = 0;
  int64_t asked_ = 0;
  std::map<std::pair<double, int64_t>, std::function<void()>> queue_;
};

struct LinkHistoryTest : testing::Test {
  static constexpr double kRate = 1e9;
  const std::unique_ptr<Topology> star =
      MakeStar({.hosts = 6, .bandwidth = BytesPerSecond(kRate), .latency = Seconds(0)});
  Clock clock;
  LinkHistory history{*star};
  std::optional<Flows> flows{std::in_place, *star, [this] { return clock.now(); },
                             [this](double time, std::function<void()> fn) { clock.At(time, std::move(fn)); },
                             &history};
  std::map<std::string, double> expected;  // bytes by link

  Flows::BundlePtr Solve(const std::vector<std::tuple<int, int, double>>& parts) {
    FlowSet set;
    std::vector<int> route;
    for (const auto& [from, to, bytes] : parts) {
      star->Route({from, to}, star->DefaultRoute({from, to}), route);
      set.Add(route, bytes, Fluid::kNoLimit);
    }
    return flows->Solve(std::move(set));
  }
  void Expect(const std::vector<std::tuple<int, int, double>>& parts) {
    std::vector<int> route;
    for (const auto& [from, to, bytes] : parts) {
      star->Route({from, to}, star->DefaultRoute({from, to}), route);
      for (const int link : route) expected[star->links()[static_cast<size_t>(link)].name] += bytes;
    }
  }
  static double SumOf(const LinkLoads::Row& row) { return std::accumulate(row.bytes.begin(), row.bytes.end(), 0.0); }
  LinkLoads End() {
    clock.Run();
    flows.reset();
    return history.Loads();
  }
};

TEST_F(LinkHistoryTest, BinsSumToTheBytesWhoeverMeets) {
  std::mt19937 random(TestSeed());
  const auto draw = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  history.Begin(0, 0);
  const int use = history.UseOf("all_to_all", "ep");
  for (int b = 0; b < 60; ++b) {
    std::vector<std::tuple<int, int, double>> parts;
    for (int f = 0; f < 4; ++f) {
      const int from = draw(6), to = (from + 1 + draw(5)) % 6;
      parts.emplace_back(from, to, 1e3 * (1 + draw(1000)));
    }
    Expect(parts);
    const Flows::BundlePtr bundle = Solve(parts);
    clock.At(1e-5 * draw(1000), [this, bundle, use] {
      flows->Begin(
          bundle, [](double) {}, use);
    });
  }
  const LinkLoads loads = End();
  double links = 0;
  for (const LinkLoads::Row& row : loads.rows) {
    SCOPED_TRACE(row.link);
    EXPECT_NEAR(SumOf(row), expected.at(row.link), 1e-9 * expected.at(row.link));
    ASSERT_EQ(row.flows.size(), 1u);  // nothing is left over
    EXPECT_EQ(row.flows[0].operation, "all_to_all");
    EXPECT_NEAR(row.flows[0].bytes, expected.at(row.link), 1e-9 * expected.at(row.link));
    for (const double bytes : row.bytes) EXPECT_LE(bytes, kRate * loads.width * (1 + 1e-9));
    links += static_cast<double>(row.links);
  }
  EXPECT_EQ(links, expected.size());
  EXPECT_EQ(loads.idle, static_cast<int64_t>(star->links().size() - expected.size()));
}

// One flow fills two links for a second; then, beside another on one of them, it takes half of that.
TEST_F(LinkHistoryTest, BinsSayWhen) {
  history.Begin(0, 0);
  const int use = history.UseOf("send", "pp");
  const auto first = Solve({{0, 1, kRate}}), second = Solve({{2, 1, kRate / 2}});
  clock.At(0, [&] {
    flows->Begin(
        first, [](double) {}, use);
  });
  clock.At(0.5, [&] {
    flows->Begin(
        second, [](double) {}, use);
  });  // both at half the rate until 1.5
  const LinkLoads loads = End();
  ASSERT_EQ(loads.rows.size(), 3u);
  const auto bytes_until = [&loads](const LinkLoads::Row& row, double time) {
    double sum = 0;
    for (size_t b = 0; b < row.bytes.size(); ++b) {
      if (loads.begin + static_cast<double>(b + 1) * loads.width <= time) sum += row.bytes[b];
    }
    return sum;
  };
  const double error = kRate * loads.width;
  EXPECT_NEAR(bytes_until(loads.rows[0], 0.5), 0.5 * kRate, error);
  EXPECT_NEAR(bytes_until(loads.rows[0], 1), kRate, error);
  EXPECT_NEAR(SumOf(loads.rows[0]), 1.5 * kRate, 1);
  EXPECT_NEAR(bytes_until(loads.rows[1], 1), 0.75 * kRate, error);  // the way of the first to the switch
  EXPECT_NEAR(SumOf(loads.rows[2]), 0.5 * kRate, 1);
  EXPECT_NEAR(bytes_until(loads.rows[2], 1), 0.25 * kRate, error);
}

TEST_F(LinkHistoryTest, WhatIsBeforeTheBeginIsLeftOut) {
  const auto bundle = Solve({{0, 1, kRate}});
  clock.At(0, [&] { flows->Begin(bundle, [](double) {}); });
  clock.At(0.25, [&] { history.Begin(0.5, clock.now()); });
  clock.At(0.375, [&] { history.Begin(0.75, clock.now()); });  // another rank, later
  clock.At(2, [&] {
    flows->Begin(
        bundle, [](double) {}, history.UseOf("send", "pp"));
  });
  const LinkLoads loads = End();
  ASSERT_EQ(loads.rows.size(), 2u);  // to the switch and from it: of different kinds
  EXPECT_EQ(loads.rows[0].links, 1);
  EXPECT_NEAR(SumOf(loads.rows[0]), 1.5 * kRate, 1);
  ASSERT_EQ(loads.rows[0].flows.size(), 2u);
  EXPECT_EQ(loads.rows[0].flows[0].group, "pp");
  EXPECT_EQ(loads.rows[0].flows[1].group, "");  // had begun before
  EXPECT_NEAR(loads.rows[0].flows[1].bytes, 0.5 * kRate, 1);
  EXPECT_NEAR(loads.begin, 0.5, 2 * loads.width);
}

TEST_F(LinkHistoryTest, NothingIsKeptBeforeItBegins) {
  clock.At(0, [this, bundle = Solve({{0, 1, kRate}})] { flows->Begin(bundle, [](double) {}); });
  EXPECT_THAT(End().rows, IsEmpty());
}

}  // namespace
}  // namespace twofold::sim
