// The engine: flows share links, ranks wait, runs that cannot go on say why.
#include "sim/engine.h"

#include <functional>
#include <string>
#include <vector>

#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/network.h"
#include "simgrid/kernel/Timer.hpp"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace engine_test {

using Body = std::function<void(Engine&, outcome::Outcome&)>;

// SimGrid takes one engine a process, so each run is a child.
outcome::Outcome Simulate(const Topology& topology, const Body& body) {
  absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(topology, {});
    outcome::Outcome result;
    body(engine, result);
    const absl::Status status = engine.Run();
    result.set_code(static_cast<int>(status.code()));
    result.set_message(std::string(status.message()));
    return result;
  });
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  return outcome.ok() ? *outcome : outcome::Outcome();
}

void SendAt(Engine& engine, double start, int from, int to, double bytes, outcome::Outcome& result) {
  auto schedule = std::make_shared<Schedule>();
  schedule->phases.push_back({.rounds = 1, .flows = {{0, 1, bytes}}});
  schedule->last_phase = {0, 0};
  result.add_results();
  const int slot = result.results_size() - 1;
  engine.Transfer(schedule, {from, to}, start, [&result, slot](const std::vector<double>& finish) {
    result.set_results(slot, std::to_string(finish[0]));
  });
}

TEST(EngineTest, FlowsShareALinkMaxMin) {
  // 1 GB/s links, 1 s latency for plain numbers. Two flows leave host 0, one of them and a third enter host 2.
  auto star = MakeStar({.hosts = 4, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1)});
  const auto outcome = Simulate(*star, [](Engine& engine, outcome::Outcome& result) {
    SendAt(engine, 0, 0, 1, 1e9, result);   // shares h0.up: 0.5 GB/s until 3
    SendAt(engine, 0, 0, 2, 2e9, result);   // 1e9 by 3, then alone
    SendAt(engine, 10, 3, 1, 1e9, result);  // alone
  });
  EXPECT_EQ(outcome.code(), 0) << outcome.message();
  EXPECT_EQ(outcome.results(0), "3.000000");
  EXPECT_EQ(outcome.results(1), "4.000000");
  EXPECT_EQ(outcome.results(2), "12.000000");
}

TEST(EngineTest, RanksOfAHostShareItsMemory) {
  auto host = MakeSharedMemoryHost({.ranks = 3,
                                    .core_bandwidth = BytesPerSecond(1e9),
                                    .total_bandwidth = BytesPerSecond(1.5e9),
                                    .latency = Seconds(0)});
  const auto outcome = Simulate(*host, [](Engine& engine, outcome::Outcome& result) {
    for (int r = 0; r < 3; ++r) SendAt(engine, 0, (r + 1) % 3, r, 1e9, result);
  });
  for (int r = 0; r < 3; ++r) EXPECT_EQ(outcome.results(r), "2.000000");  // 0.5 GB/s each
}

TEST(EngineTest, DeadlockNamesEveryRankAndWhatItWaitsFor) {
  auto star = MakeStar({.hosts = 2});
  const auto outcome = Simulate(*star, [](Engine& engine, outcome::Outcome& result) {
    for (int r = 0; r < 2; ++r) {
      engine.AddRank(r, [&engine, &result, r] {
        auto never = std::make_shared<TimePoint>();
        try {
          engine.Block(r, never, [r] { return StrCat("godot", r); });
        } catch (const Deadlock&) {
          result.add_notes(StrCat("rank ", r, " was told"));
          throw;
        }
      });
    }
  });
  EXPECT_EQ(outcome.code(), static_cast<int>(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(outcome.message(), "deadlock: rank 0 waits for godot0; rank 1 waits for godot1");
  EXPECT_EQ(outcome.notes_size(), 2);
}

TEST(EngineTest, AFailureEndsTheOthersAndIsTheCause) {
  auto star = MakeStar({.hosts = 2});
  const auto outcome = Simulate(*star, [](Engine& engine, outcome::Outcome&) {
    engine.AddRank(0, [&engine] { engine.Block(0, std::make_shared<TimePoint>(), [] { return std::string("x"); }); });
    engine.AddRank(1, [] { throw std::runtime_error("injected"); });
  });
  EXPECT_EQ(outcome.code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_EQ(outcome.message(), "rank 1: std::runtime_error: injected");
}

TEST(EngineTest, TimersFollowTheClock) {
  auto star = MakeStar({.hosts = 1});
  const auto outcome = Simulate(*star, [](Engine& engine, outcome::Outcome& result) {
    engine.AddRank(0, [&engine, &result] {
      auto point = std::make_shared<TimePoint>();
      engine.At(2.5, [&, point] { result.add_notes(std::to_string(engine.now())), point->Resolve(2.5); });
      engine.At(1.5, [&] { result.add_notes(std::to_string(engine.now())); });
      engine.Block(0, point, [] { return std::string("the timer"); });
      result.add_notes("on");
    });
  });
  EXPECT_EQ(outcome.code(), 0);
  EXPECT_EQ((std::vector<std::string>(outcome.notes().begin(), outcome.notes().end())),
            (std::vector<std::string>{"1.500000", "2.500000", "on"}));
}

// Each moment outdates the timer of the one asked for before it. Outdated timers that set others would be a thousand by
// the end.
TEST(EngineTest, OutdatedTimersSetNoOthers) {
  auto star = MakeStar({.hosts = 1});
  const auto outcome = Simulate(*star, [](Engine& engine, outcome::Outcome& result) {
    for (int moment = 1000; moment > 0; --moment) {
      engine.At(moment, [moment, &result] {
        if (moment == 1000) result.add_notes(std::to_string(simgrid::kernel::timer::kernel_timers().size()));
      });
    }
  });
  ASSERT_EQ(outcome.notes_size(), 1);
  EXPECT_LE(std::stoi(outcome.notes(0)), 2);
}

}  // namespace engine_test
}  // namespace twofold::sim
