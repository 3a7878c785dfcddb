// Bundles of flows that come and go: what they share when they meet, and what is solved for it.
#include "sim/flows.h"

#include <queue>
#include <random>
#include <tuple>

#include "gmock/gmock.h"
#include "tests/seed.h"
#include "tests/unit/sim/flows.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace flows_test {

// A clock that runs what it was asked for, in order.
class Timers {
 public:
  double now() const { return now_; }
  void At(double time, std::function<void()> fn) {
    if (time <= now_) return fn();
    queue_.push({time, asked_++, std::move(fn)});
  }
  void Run() {
    while (!queue_.empty()) {
      const Timer next = queue_.top();
      queue_.pop();
      now_ = next.time;
      next.fn();
    }
  }

 private:
  struct Timer {
    double time;
    int64_t number;
    std::function<void()> fn;
    bool operator<(const Timer& other) const { return std::pair(time, number) > std::pair(other.time, other.number); }
  };
  double now_ = 0;
  int64_t asked_ = 0;
  std::priority_queue<Timer> queue_;
};

class FlowsTest : public testing::Test {
 protected:
  static constexpr double B = 1e9, n = 1e9;  // a flow alone takes 1 s
  const std::unique_ptr<Topology> star_ = MakeStar({.hosts = 8, .bandwidth = BytesPerSecond(B), .latency = Seconds(0)});
  Timers timers_;
  Flows flows_{*star_, [this] { return timers_.now(); },
               [this](double time, std::function<void()> fn) { timers_.At(time, std::move(fn)); }};

  struct Part {
    int from, to;
    double bytes = n;
    int lot = 0;
    double rate = Fluid::kNoLimit;
  };
  FlowSet SetOf(const std::vector<Part>& parts) const {
    FlowSet flows;
    std::vector<int> route;
    for (const Part& part : parts) {
      star_->Route({part.from, part.to}, star_->DefaultRoute({part.from, part.to}), route);
      flows.Add(route, part.bytes, part.rate, part.lot);
    }
    return flows;
  }
  Flows::BundlePtr Solve(const std::vector<Part>& parts) { return flows_.Solve(SetOf(parts)); }
  // Alone they take so many seconds.
  void BeginUnsolvedAt(double time, const std::vector<Part>& parts, double seconds, std::string& ends, int& solved) {
    timers_.At(time, [=, this, &ends, &solved] {
      const auto solve = [this, parts, &solved] { return ++solved, Solve(parts); };
      flows_.BeginUnsolved(seconds, 2, solve,
                           [this, &ends](double first) { ends = absl::StrFormat("%.9g %.9g", first, timers_.now()); });
    });
  }
  // When each bundle ends, in seconds after `time`, if those with these numbers begin together then; 0 for the others.
  std::vector<double> EndsOf(const std::vector<Flows::BundlePtr>& bundles, double time,
                             const std::vector<size_t>& numbers) {
    std::vector<double> ends(bundles.size());
    for (const size_t number : numbers) {
      timers_.At(time, [&, number, time] {
        flows_.BeginTogether(bundles[number], [&, number, time](double) { ends[number] = timers_.now() - time; });
      });
    }
    timers_.At(time, [this] { flows_.Settle(); });
    timers_.Run();
    return ends;
  }
  // Notes "first last" as the bundle ends.
  void BeginAt(double time, const std::vector<Part>& parts, std::string& ends) {
    timers_.At(time, [this, bundle = Solve(parts), &ends] {
      flows_.Begin(bundle, [this, &ends](double first) { ends = absl::StrFormat("%.9g %.9g", first, timers_.now()); });
    });
  }
};

TEST_F(FlowsTest, BundlesThatDoNotMeetTakeWhatTheyTakeAlone) {
  std::string one, other, again;
  BeginAt(0, {Part(0, 1), Part(1, 2), Part(2, 0)}, one);
  BeginAt(0.5, {Part(4, 5), Part(5, 4, n / 2, 1)}, other);
  BeginAt(1, {Part(0, 1)}, again);  // as the first ends
  timers_.Run();
  EXPECT_EQ(one, "1 1");
  EXPECT_EQ(other, "1 1.5");  // the shorter of its lots
  EXPECT_EQ(again, "2 2");
  EXPECT_EQ(flows_.meetings(), 0);
}

// On one link without filling it: nobody is held back.
TEST_F(FlowsTest, LinksThatAreNotFullAreNoMeeting) {
  std::string one, other;
  BeginAt(0, {Part(0, 1, n / 2, 0, B / 2)}, one);
  BeginAt(0.25, {Part(0, 2, n / 4, 0, B / 4)}, other);
  timers_.Run();
  EXPECT_EQ(one, "1 1");
  EXPECT_EQ(other, "1.25 1.25");
  EXPECT_EQ(flows_.meetings(), 0);
}

// Whose time alone is known: nobody solves it as long as nothing else begins.
TEST_F(FlowsTest, UnsolvedBundlesEndWithoutASolution) {
  std::string one, other;
  int solved = 0;
  BeginUnsolvedAt(0, {Part(0, 1)}, 1, one, solved);
  BeginUnsolvedAt(1, {Part(0, 2, n / 2)}, 0.5, other, solved);  // as the first ends
  timers_.Run();
  EXPECT_EQ(one, "1 1");
  EXPECT_EQ(other, "1.5 1.5");
  EXPECT_EQ(solved, 0);
  EXPECT_EQ(flows_.solutions(), 0);
}

// With others beside it, a bundle ends as if it had been solved from the beginning: between its steps, at one, before
// any, as it ends, and with others on other links.
TEST_F(FlowsTest, UnsolvedBundlesThatMeetOthersEndAsSolvedOnes) {
  const std::vector<Part> parts = {Part(0, 1, n / 4), Part(0, 2, 3 * n / 4), Part(5, 2, n / 8)};
  for (const double begin : {0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.99, 1.0, 1.5}) {
    for (const std::vector<Part>& second : std::vector<std::vector<Part>>{
             {Part(3, 2, n / 2)}, {Part(0, 4)}, {Part(6, 7), Part(0, 3, n / 8)}, {Part(6, 7)}}) {
      std::string ends[2][3];
      for (const bool unsolved : {false, true}) {
        Timers timers;
        Flows flows(
            *star_, [&] { return timers.now(); },
            [&](double time, std::function<void()> fn) { timers.At(time, std::move(fn)); });
        const auto ended = [&](std::string& end) {
          return [&](double first) { end = absl::StrFormat("%.9g %.9g", first, timers.now()); };
        };
        auto& [one, other, third] = ends[unsolved];
        int solved = 0;
        const auto solve = [&] { return ++solved, flows.Solve(SetOf(parts)); };
        timers.At(0, [&] {
          if (unsolved)
            flows.BeginUnsolved(1, 2, solve, ended(one));
          else
            flows.BeginTogether(flows.Solve(SetOf(parts)), ended(one));
          flows.Settle();
        });
        for (std::string* end : {&other, &third}) {  // the third is late, or those two would meet and take the first in
          timers.At(end == &third ? 1.25 : begin, [&flows, &ended, &second, end, this] {
            flows.BeginTogether(flows.Solve(SetOf(second)), ended(*end));
            flows.Settle();
          });
        }
        timers.Run();
        EXPECT_EQ(solved, unsolved && begin < 1 ? 1 : 0) << begin;
      }
      for (int i = 0; i < 3; ++i) EXPECT_EQ(ends[1][i], ends[0][i]) << "bundle " << i << ", others at " << begin;
    }
  }
}

// As long as their shares of a link add up to no more than 1, nobody solves them. One more, and all end as if they had
// been solved from the beginning.
TEST_F(FlowsTest, UnsolvedBundlesFitBesideEachOtherUpToAWholeLink) {
  for (const double rate : {B / 2, B / 4}) {  // of the third
    std::string ends[2][3];
    int solved = 0;
    for (const bool unsolved : {false, true}) {
      Timers timers;
      Flows flows(
          *star_, [&] { return timers.now(); },
          [&](double time, std::function<void()> fn) { timers.At(time, std::move(fn)); });
      const auto begin = [&](double time, double bytes, double rate, std::string& end) {
        timers.At(time, [&, bytes, rate] {
          const auto ended = [&](double first) { end = absl::StrFormat("%.9g %.9g", first, timers.now()); };
          const auto solve = [&, bytes, rate] { return ++solved, flows.Solve(SetOf({Part(0, 1, bytes, 0, rate)})); };
          if (unsolved)
            flows.BeginUnsolved(bytes / rate, rate / B, solve, ended);
          else
            flows.BeginTogether(solve(), ended);
          flows.Settle();
        });
      };
      begin(0, n / 2, B / 2, ends[unsolved][0]);
      begin(0.25, n / 4, B / 4, ends[unsolved][1]);
      begin(0.5, n / 2, rate, ends[unsolved][2]);
      solved = 0;
      timers.Run();
    }
    EXPECT_EQ(solved, rate == B / 2 ? 3 : 0);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ends[1][i], ends[0][i]) << "bundle " << i;
    EXPECT_EQ(ends[1][0], rate == B / 2 ? "1.16666667 1.16666667" : "1 1");
  }
}

// A bundle begins at the moment when an unsolved one ends, whose end begins another one: nobody is forgotten.
TEST_F(FlowsTest, AnUnsolvedBundleMayEndAsAnotherBegins) {
  for (const bool unsolved : {false, true}) {
    Timers timers;
    Flows flows(
        *star_, [&] { return timers.now(); },
        [&](double time, std::function<void()> fn) { timers.At(time, std::move(fn)); });
    std::string after, other;
    int solved = 0;
    const auto ended = [&](std::string& end) { return [&](double) { end = absl::StrFormat("%.9g", timers.now()); }; };
    const auto solve = [&](std::vector<Part> parts) {
      return [&, parts] { return ++solved, flows.Solve(SetOf(parts)); };
    };
    timers.At(1, [&] {  // asked for before the end of the first
      flows.BeginTogether(flows.Solve(SetOf({Part(0, 1)})), ended(other));
      flows.Settle();
    });
    timers.At(1e-9, [&] {
      flows.BeginUnsolved(1 - 1e-9, 2, solve({Part(2, 3, n * (1 - 1e-9))}), [&](double) {
        if (unsolved)
          flows.BeginUnsolved(1, 2, solve({Part(0, 2)}), ended(after));
        else
          flows.BeginTogether(flows.Solve(SetOf({Part(0, 2)})), ended(after));
        flows.Settle();
      });
    });
    timers.Run();
    EXPECT_EQ(after, "3") << unsolved;  // both leave rank 0, each at half its rate
    EXPECT_EQ(other, "3") << unsolved;
  }
}

TEST_F(FlowsTest, BundlesThatMeetShareAndGoOnAlone) {
  std::string one, other;
  BeginAt(0, {Part(0, 1), Part(2, 3, n, 1)}, one);  // the second lot meets nobody
  BeginAt(0.5, {Part(0, 4)}, other);
  timers_.Run();
  EXPECT_EQ(one, "1 1.5");  // alone for 0.5 s, then half of it
  EXPECT_EQ(other, "2 2");  // half, then all
  EXPECT_EQ(flows_.meetings(), 1);
}

// What a bundle's own end leaves to its others may be what somebody else has by then.
TEST_F(FlowsTest, RatesThatRiseMeetToo) {
  std::string one, other;
  // 0 -> 1 and 0 -> 2 have halves of 0's way out; when the first ends at 0.5, the second would rise to all of 2's way
  // in.
  BeginAt(0, {Part(0, 1, n / 4), Part(0, 2, 3 * n / 4)}, one);
  BeginAt(0.25, {Part(3, 2, n / 2, 0, B / 2)}, other);
  timers_.Run();
  EXPECT_EQ(other, "1.25 1.25");
  EXPECT_EQ(one, "1.375 1.375");  // of the longer: n/4 by 0.5 s, 3n/8 at half speed beside the other, n/8 alone
  EXPECT_GE(flows_.meetings(), 1);
}

// One bundle crosses all links, three that begin at once have one each: one meeting instead of three, and the same
// ends.
TEST_F(FlowsTest, BundlesThatBeginTogetherMeetOnce) {
  const std::vector<Part> all = {Part(0, 1), Part(2, 3), Part(4, 5)};
  const std::vector<std::vector<Part>> few = {
      {Part(0, 1, n / 4)}, {Part(2, 3, n / 4)}, {Part(4, 5, n / 8)}, {Part(6, 7)}};
  std::vector<std::string> apart(5), together(5);
  BeginAt(0, all, apart[4]);
  for (size_t i = 0; i < few.size(); ++i) BeginAt(0.5, few[i], apart[i]);
  timers_.Run();
  EXPECT_EQ(flows_.meetings(), 3);
  EXPECT_EQ(apart, (std::vector<std::string>{"1 1", "1 1", "0.75 0.75", "1.5 1.5", "1.25 1.25"}));

  const double then = timers_.now();
  std::vector<Flows::BundlePtr> bundles;
  for (const auto& parts : few) bundles.push_back(Solve(parts));
  bundles.push_back(Solve(all));
  const auto begin = [&](size_t i) {
    flows_.BeginTogether(bundles[i], [&, i](double first) {
      together[i] = absl::StrFormat("%.9g %.9g", first - then, timers_.now() - then);
    });
  };
  begin(4);
  EXPECT_TRUE(flows_.Settle());
  timers_.At(then + 0.5, [&] {
    for (size_t i = 0; i < few.size(); ++i) begin(i);
    EXPECT_TRUE(flows_.Settle());
    EXPECT_FALSE(flows_.Settle());
  });
  timers_.Run();
  EXPECT_EQ(flows_.meetings(), 4);
  EXPECT_EQ(together, apart);
}

// Bundles that meet with as much left as at an earlier meeting are not solved again; with less left they are.
TEST_F(FlowsTest, AMeetingThatRepeatsIsSolvedOnce) {
  const Flows::BundlePtr one = Solve({Part(0, 1)}), other = Solve({Part(0, 4)});
  const int64_t alone = flows_.solutions();
  const auto meet = [&](double time, double later) {
    std::string ends;
    for (const auto& [bundle, begin] : {std::pair(one, time), std::pair(other, time + later)}) {
      timers_.At(begin, [this, bundle, time, &ends] {
        flows_.Begin(bundle, [this, time, &ends](double) { ends += absl::StrFormat("%.9g ", timers_.now() - time); });
      });
    }
    timers_.Run();
    return ends;
  };
  EXPECT_EQ(meet(0, 0.5), "1.5 2 ");
  EXPECT_EQ(flows_.solutions(), alone + 1);
  EXPECT_EQ(meet(1000.1, 0.5), "1.5 2 ");  // a clock that rounds
  EXPECT_EQ(flows_.solutions(), alone + 1);
  EXPECT_EQ(meet(2000, 0.75), "1.25 2 ");  // less left
  EXPECT_EQ(flows_.solutions(), alone + 2);
  EXPECT_EQ(flows_.meetings(), 3);
}

// Nor does it matter which of them comes first. A third set that meets two that have met before finds their classes.
TEST_F(FlowsTest, WhoMeetsWhomDoesNotMatter) {
  const std::vector<Flows::BundlePtr> bundles = {Solve({Part(0, 1)}), Solve({Part(0, 4)}), Solve({Part(2, 4)})};
  EXPECT_EQ(flows_.most_classes(), 1u);
  const auto meet = [&](double time, const std::vector<size_t>& numbers) { return EndsOf(bundles, time, numbers); };
  const int64_t alone = flows_.solutions();
  EXPECT_EQ(meet(1024, {0, 1}), (std::vector<double>{2, 2, 0}));
  EXPECT_EQ(meet(2048, {1, 0}), (std::vector<double>{2, 2, 0}));
  EXPECT_EQ(flows_.solutions(), alone + 1);
  EXPECT_EQ(flows_.most_classes(), 2u);
  EXPECT_EQ(meet(4096, {2, 1, 0}), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(meet(8192, {0, 2, 1}), (std::vector<double>{2, 2, 2}));
  EXPECT_EQ(flows_.solutions(), alone + 2);
  EXPECT_EQ(flows_.most_classes(), 3u);
}

// Classes of many sets serve some of them, too, unless these might do with far fewer.
TEST_F(FlowsTest, SomeOfThoseThatMetNeedNoClassesOfTheirOwn) {
  std::vector<Flows::BundlePtr> bundles;
  for (int to = 1; to < 6; ++to) bundles.push_back(Solve({Part(0, to)}));
  const auto meet = [&](double time, const std::vector<size_t>& numbers) { return EndsOf(bundles, time, numbers); };
  const int64_t alone = flows_.classified();
  EXPECT_EQ(meet(1024, {0, 1, 2, 3, 4}), (std::vector<double>{5, 5, 5, 5, 5}));
  EXPECT_EQ(flows_.classified(), alone + 1);
  EXPECT_EQ(meet(2048, {0, 1, 3, 4}), (std::vector<double>{4, 4, 0, 4, 4}));
  EXPECT_EQ(flows_.classified(), alone + 1);
  EXPECT_EQ(meet(4096, {1, 4}), (std::vector<double>{0, 2, 0, 0, 2}));
  EXPECT_EQ(flows_.classified(), alone + 2);
}

// What is known from earlier meetings does not change when bundles end, whoever is there and whoever told flows apart.
TEST_F(FlowsTest, WhatIsKnownOfMeetingsChangesNoEnd) {
  std::mt19937 random(7);
  const auto draw = [&random](size_t below) { return static_cast<size_t>(random() % below); };
  std::vector<std::vector<Part>> parts(8);
  for (std::vector<Part>& own : parts) {
    for (size_t flows = 1 + draw(5); own.size() < flows;) {
      const int from = static_cast<int>(draw(4)), to = static_cast<int>(draw(4));
      if (from != to) own.push_back(Part(from, to, n * static_cast<double>(1 + draw(2))));
    }
  }
  const auto run = [](Timers& timers, Flows& flows, const std::vector<Flows::BundlePtr>& bundles, double start,
                      const std::vector<std::pair<double, size_t>>& begins) {
    std::vector<double> ends(bundles.size());
    for (const auto& [begin, number] : begins) {
      timers.At(start + begin, [&, number = number] {
        flows.Begin(bundles[number], [&, number](double) { ends[number] = timers.now() - start; });
      });
    }
    timers.Run();
    return ends;
  };
  const auto solve = [&](Flows& flows) {
    std::vector<Flows::BundlePtr> bundles;
    for (const std::vector<Part>& own : parts) bundles.push_back(flows.Solve(SetOf(own)));
    return bundles;
  };
  const std::vector<Flows::BundlePtr> bundles = solve(flows_);
  int64_t classified = 0;
  for (int round = 0; round < 64; ++round) {
    std::vector<std::pair<double, size_t>> begins;
    for (size_t b = 0; b < parts.size(); ++b)
      if (draw(4) > 0) begins.emplace_back(0.25 * static_cast<double>(draw(16)), b);
    Timers timers;
    Flows fresh{*star_, [&timers] { return timers.now(); },
                [&timers](double time, std::function<void()> fn) { timers.At(time, std::move(fn)); }};
    const std::vector<double> want = run(timers, fresh, solve(fresh), 0, begins);
    const std::vector<double> got = run(timers_, flows_, bundles, 64.0 * (1 + round), begins);
    for (size_t b = 0; b < parts.size(); ++b) EXPECT_NEAR(got[b], want[b], 1e-9) << round << " " << b;
    classified += fresh.classified();
  }
  EXPECT_LT(flows_.classified(), classified / 2);
}

TEST_F(FlowsTest, ABundleBegunTwiceSharesWithItself) {
  std::string one, other;
  const Flows::BundlePtr bundle = Solve({Part(0, 1)});
  auto note = [this](std::string& ends) {
    return [this, &ends](double) { ends = absl::StrFormat("%.9g", timers_.now()); };
  };
  timers_.At(0.1, [&] { flows_.Begin(bundle, note(one)), flows_.Begin(bundle, note(other)); });
  timers_.Run();
  EXPECT_EQ(one, "2.1");
  EXPECT_EQ(other, "2.1");
}

}  // namespace flows_test
}  // namespace twofold::sim
