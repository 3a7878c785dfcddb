// Schedules move the bytes that their operation needs, whatever the algorithm.
#include "sim/collectives/schedule.h"

#include <vector>

#include "gtest/gtest.h"

namespace twofold::sim {
namespace schedule_test {

constexpr double kBytes = 5040;  // divisible by 1..10

std::vector<double> Received(const Schedule& s) {
  std::vector<double> in(s.last_phase.size(), 0);
  for (const Phase& p : s.phases) {
    for (const Flow& f : p.flows) in[static_cast<size_t>(f.to)] += f.bytes;
  }
  return in;
}

TEST(ScheduleTest, FlowsStayWithinTheGroupAndRanksFinish) {
  for (const Algorithm& algorithm : Algorithms()) {
    for (int kind = Communication::kAllReduce; kind < Communication::kBarrier; ++kind) {
      for (int n : {2, 3, 4, 5, 8, 9}) {
        CollectiveShape shape{static_cast<Communication::Kind>(kind), n, kBytes, n - 1, {}};
        shape.matrix.assign(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n), 1));
        const auto schedule = algorithm.make(shape, UniformPlaces(n, 1e-6, 1e9));
        if (!schedule.ok()) continue;
        ASSERT_EQ(schedule->last_phase.size(), static_cast<size_t>(n));
        for (int last : schedule->last_phase) EXPECT_GE(last, 0) << algorithm.name << " " << kind << " " << n;
        for (const Phase& p : schedule->phases) {
          for (const Flow& f : p.flows) {
            EXPECT_NE(f.from, f.to);
            EXPECT_TRUE(f.from >= 0 && f.from < n && f.to >= 0 && f.to < n);
            EXPECT_GE(f.bytes, 0);
          }
        }
      }
    }
  }
}

TEST(ScheduleTest, EveryRankReceivesWhatItLacks) {
  for (int n : {2, 3, 4, 8, 9}) {
    for (auto make : {RingSchedule, DirectSchedule}) {
      for (double b : Received(*make({Communication::kAllGather, n, kBytes, 0, {}}, UniformPlaces(n, 1e-6, 1e9)))) {
        EXPECT_DOUBLE_EQ(b, kBytes * (n - 1) / n);
      }
      for (double b : Received(*make({Communication::kAllReduce, n, kBytes, 0, {}}, UniformPlaces(n, 1e-6, 1e9)))) {
        EXPECT_DOUBLE_EQ(b, 2 * kBytes * (n - 1) / n);
      }
    }
    for (auto make : {RingSchedule, TreeSchedule, DirectSchedule}) {
      const auto in = Received(*make({Communication::kBroadcast, n, kBytes, 1, {}}, UniformPlaces(n, 1e-6, 1e9)));
      for (size_t r = 0; r < in.size(); ++r) EXPECT_EQ(in[r], r == 1 ? 0 : kBytes);
    }
    for (auto make : {TreeSchedule, DirectSchedule}) {
      EXPECT_DOUBLE_EQ(Received(*make({Communication::kGather, n, kBytes, 1, {}}, UniformPlaces(n, 1e-6, 1e9)))[1],
                       kBytes * (n - 1) / n);
    }
  }
}

TEST(ScheduleTest, RefusesWhatItCannotDo) {
  EXPECT_FALSE(
      RecursiveDoublingSchedule({Communication::kAllGather, 6, kBytes, 0, {}}, UniformPlaces(6, 1e-6, 1e9)).ok());
  EXPECT_FALSE(RingSchedule({Communication::kAllToAll, 4, kBytes, 0, {}}, UniformPlaces(4, 1e-6, 1e9)).ok());
  EXPECT_FALSE(ChooseSchedule({Communication::kAllToAll, 4, kBytes, 0, {}}, "ring", UniformPlaces(4, 1e-6, 1e9)).ok());
  EXPECT_FALSE(
      ChooseSchedule({Communication::kAllReduce, 4, kBytes, 0, {}}, "shared_memory", UniformPlaces(4, 1e-6, 1e9)).ok());
  EXPECT_FALSE(
      ChooseSchedule({Communication::kAllReduce, 4, kBytes, 0, {}}, "magic", UniformPlaces(4, 1e-6, 1e9)).ok());
}

TEST(ScheduleTest, AutoTakesTheCheapest) {
  const CollectiveShape small{Communication::kAllReduce, 16, 8, 0, {}},
      large{Communication::kAllReduce, 16, 1e9, 0, {}};
  const auto cheap = ChooseSchedule(small, "auto", UniformPlaces(16, 1e-6, 25e9));
  EXPECT_EQ(cheap->phases.size(), 4u);  // recursive doubling
  EXPECT_EQ(ChooseSchedule(large, "auto", UniformPlaces(16, 1e-6, 25e9))->algorithm, "recursive_halving_doubling");
  EXPECT_EQ(
      ChooseSchedule({Communication::kAllReduce, 13, 1e9, 0, {}}, "auto", UniformPlaces(13, 1e-6, 25e9))->algorithm,
      "ring");
}

// Of all that it may take: direct and pairwise post N - 1 messages, whose cost the model does not know.
TEST(ScheduleTest, AutoTakesNothingThatItsModelCallsSlower) {
  int held = 0;
  for (int kind = Communication::kAllReduce; kind < Communication::kBarrier; ++kind) {
    for (int n : {2, 3, 4, 7, 8, 16, 24, 64}) {
      for (double bytes = 8; bytes < 1e10; bytes *= 32) {
        CollectiveShape shape{static_cast<Communication::Kind>(kind), n, bytes, n - 1, {}};
        shape.matrix.assign(static_cast<size_t>(n), std::vector<double>(static_cast<size_t>(n), bytes / n));
        const Places places = UniformPlaces(n, 2e-6, 25e9);
        const Schedule chosen = ChooseSchedule(shape, "auto", places).value();
        for (const Algorithm& algorithm : Algorithms()) {
          const auto forced = ChooseSchedule(shape, algorithm.name, places);
          const bool posts = algorithm.name == "direct" || algorithm.name == "pairwise";
          if (!forced.ok() || (posts && chosen.algorithm != "direct")) continue;
          ++held;
          EXPECT_LE(chosen.estimate, EstimateSeconds(*forced, places))
              << algorithm.name << " against " << chosen.algorithm << ", " << n << " ranks, " << bytes << " B";
        }
      }
    }
  }
  EXPECT_GT(held, 500);
}

// Where each rank has a node of its own, flows are described; elsewhere, and in parts of a group, listed. They are the
// same.
TEST(ScheduleTest, RotationsAreTheSameDescribedAndListed) {
  constexpr int kRanks = 6;
  Places shared = UniformPlaces(kRanks, 1e-6, 1e9);
  for (size_t r = 0; r < kRanks; ++r) shared.node[r] = static_cast<int>(r / 2);
  shared.nodes = 3;
  for (const auto make : {DirectSchedule, PairwiseSchedule}) {
    for (const int n : {kRanks, 4}) {
      const CollectiveShape shape{Communication::kAllToAll, n, kBytes, 0, {}};
      const auto described = make(shape, UniformPlaces(kRanks, 1e-6, 1e9)), listed = make(shape, shared);
      ASSERT_TRUE(described.ok() && listed.ok());
      EXPECT_EQ(described->last_phase, listed->last_phase);
      ASSERT_EQ(described->phases.size(), static_cast<size_t>(n - 1));
      for (size_t p = 0; p < described->phases.size(); ++p) {
        const FlowList &some = described->phases[p].flows, &others = listed->phases[p].flows;
        EXPECT_EQ(some.pattern() != nullptr, n == kRanks);
        EXPECT_EQ(others.pattern(), nullptr);
        ASSERT_EQ(some.size(), others.size());
        for (size_t f = 0; f < some.size(); ++f) {
          EXPECT_EQ(some[f].from, others[f].from);
          EXPECT_EQ(some[f].to, others[f].to);
          EXPECT_EQ(some[f].bytes, others[f].bytes);
        }
      }
    }
  }
}

}  // namespace schedule_test
}  // namespace twofold::sim
