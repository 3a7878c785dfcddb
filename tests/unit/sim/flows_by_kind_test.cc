// Flows that are given by kind are the same as listed ones, and are listed only when somebody needs that.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace flows_by_kind_test {

// A ring in which the flow to the first rank has twice the bytes; by kind, if there is a pattern.
std::shared_ptr<const Schedule> RingOf(int ranks, double bytes, std::shared_ptr<const FlowPattern> pattern,
                                       double more = 2) {
  Phase phase;
  const Flow kinds[] = {{.from = 0, .to = 0, .bytes = bytes}, {.from = 0, .to = 0, .bytes = more * bytes}};
  if (pattern != nullptr) {
    phase.flows = FlowList(std::move(pattern), {kinds[0], kinds[1]});
  } else {
    for (int r = 0; r < ranks; ++r) {
      const int to = (r + 1) % ranks;
      phase.flows.push_back({.from = r, .to = to, .bytes = kinds[to == 0 ? 1 : 0].bytes});
    }
  }
  return std::make_shared<Schedule>(
      Schedule{.phases = {std::move(phase)}, .last_phase = std::vector<int>(static_cast<size_t>(ranks), 0)});
}

std::shared_ptr<const FlowPattern> RingPattern(int ranks) {
  std::vector<FlowPattern::Ends> flows;
  for (int r = 0; r < ranks; ++r) flows.push_back({r, (r + 1) % ranks, r + 1 == ranks ? 1 : 0});
  return std::make_shared<const FlowPattern>(std::move(flows));
}

TEST(FlowsByKind, OneByOneTheyAreTheSame) {
  FlowList by_kind = RingOf(5, 3e6, RingPattern(5))->phases[0].flows;
  const FlowList listed = RingOf(5, 3e6, nullptr)->phases[0].flows;
  ASSERT_EQ(by_kind.size(), listed.size());
  const auto same = [&](size_t f) {
    return std::tuple(by_kind[f].from, by_kind[f].to, by_kind[f].bytes) ==
           std::tuple(listed[f].from, listed[f].to, listed[f].bytes);
  };
  for (size_t f = 0; f < listed.size(); ++f) EXPECT_TRUE(same(f)) << f;
  by_kind.Listed()[1].bytes = 7;
  EXPECT_EQ(by_kind.pattern(), nullptr);
  EXPECT_EQ(by_kind[1].bytes, 7);
  EXPECT_TRUE(same(4)) << "the others are as before";
}

// Cost does not grow with the number of sizes: flows are listed for the first of them alone. They end when they would
// have ended if they had been listed.
TEST(FlowsByKind, AnotherSizeListsNoFlow) {
  constexpr int kRanks = 8;
  const auto star = MakeStar({.hosts = 2 * kRanks, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1e-6)});
  std::vector<int> endpoints, others;
  for (int r = 0; r < kRanks; ++r) endpoints.push_back(r), others.push_back(kRanks + r);
  struct Case {
    double bytes, more;
    const std::vector<int>* at;
    int64_t listed;  // afterwards
  };
  const std::vector<Case> cases = {{1e6, 2, &endpoints, kRanks},   {5e6, 2, &endpoints, kRanks},
                                   {7.7e5, 2, &endpoints, kRanks}, {5e6, 3, &endpoints, 2 * kRanks},
                                   {5e6, 2, &others, 3 * kRanks},  {3e6, 3, &endpoints, 3 * kRanks}};
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(*star, {.routing = {}, .solve_flows = true});
    const auto pattern = RingPattern(kRanks);
    outcome::Outcome result;
    double start = 0;
    for (const Case& c : cases) {
      const std::shared_ptr<const Schedule> schedule = RingOf(kRanks, c.bytes, pattern, c.more);
      const Engine::Copy copy{schedule, *c.at};
      engine.Run(engine.Chart({&copy, 1}), start, [&result, start](const std::vector<double>& finish, double) {
        result.add_results(absl::StrFormat("%.12g", finish[0] - start));
      });
      result.add_notes(absl::StrCat(engine.flows_listed()));
      start += 1;
    }
    result.set_message(std::string(engine.Run().message()));
    return result;
  });
  ASSERT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
  ASSERT_EQ(outcome->results_size(), static_cast<int>(cases.size()));
  for (size_t i = 0; i < cases.size(); ++i) {
    const int n = static_cast<int>(i);
    EXPECT_EQ(outcome->notes(n), absl::StrCat(cases[i].listed)) << i;
    EXPECT_NEAR(std::stod(outcome->results(n)), 1e-6 + cases[i].more * cases[i].bytes / 1e9, 1e-11) << i;
  }
}

// A course that has the network to itself lists no flow. If another one begins beside it, both end as if their flows
// had been solved from the beginning.
TEST(FlowsByKind, UnsolvedCoursesListFlowsOnlyWhenTheyMeet) {
  constexpr int kRanks = 4;
  const auto star = MakeStar({.hosts = kRanks, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1e-6)});
  const std::vector<int> endpoints = {0, 1, 2, 3};
  const double alone = 1e-6 + 2 * 1e6 / 1e9;  // seconds
  for (const double second : {2 * alone, 0.3 * alone, 0.0}) {
    SCOPED_TRACE(second);
    std::string ends[2];
    for (const bool unsolved : {false, true}) {
      const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
        Engine engine(*star, {.routing = {}, .solve_flows = true});
        outcome::Outcome result;
        const std::shared_ptr<const Schedule> schedule = RingOf(kRanks, 1e6, RingPattern(kRanks), 2);
        const Engine::Copy copy{schedule, endpoints};
        EXPECT_TRUE(engine.MayWait(*schedule));
        const Engine::Alone phase{1e-6, 2 * 1e6 / 1e9};
        for (const double start : {0.0, second}) {
          const auto course = unsolved ? engine.ChartUnsolved(copy, {&phase, 1}) : engine.Chart({&copy, 1});
          engine.Run(course, start, [&result](const std::vector<double>& finish, double) {
            result.add_results(absl::StrFormat("%.12g", finish[0]));
          });
        }
        result.set_message(std::string(engine.Run().message()));
        result.add_notes(absl::StrCat(engine.flows_listed()));
        return result;
      });
      ASSERT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
      ASSERT_EQ(outcome->results_size(), 2);
      ends[unsolved] = absl::StrCat(outcome->results(0), " ", outcome->results(1));
      const bool listed = !unsolved || second < alone;
      EXPECT_EQ(outcome->notes(0) != "0", listed);
    }
    EXPECT_EQ(ends[1], ends[0]);
  }
}

}  // namespace flows_by_kind_test
}  // namespace twofold::sim
