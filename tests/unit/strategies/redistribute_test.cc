// Which member sends what to whom after a change: a pure function of what all hold and need.
#include "strategies/elastic/redistribute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/seed.h"

namespace twofold::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void Add(Pieces& pieces, const std::string& name, int64_t first, int64_t count, int64_t numel = 100) {
  pieces.push_back({.name = name, .numel = numel, .where = Region::Run(numel, first, count)});
}

int64_t Sent(const std::vector<Move>& moves, int from) {
  int64_t sent = 0;
  for (const Move& m : moves) sent += m.from == from && m.to != from ? m.count : 0;
  return sent;
}

TEST(PlanMoves, CopiesWhatARankHasItself) {
  std::vector<Pieces> held(2), needed(2);
  Add(held[0], "w", 0, 100), Add(held[1], "w", 0, 100);
  Add(needed[0], "w", 0, 100), Add(needed[1], "w", 0, 100);
  const auto moves = PlanMoves(held, needed);
  ASSERT_TRUE(moves.ok());
  ASSERT_EQ(moves->size(), 2u);
  EXPECT_EQ(Sent(*moves, 0) + Sent(*moves, 1), 0);
}

TEST(PlanMoves, DividesTheSendingAmongTheHolders) {
  std::vector<Pieces> held(4), needed(4);
  for (int r = 0; r < 2; ++r)
    Add(held[static_cast<size_t>(r)], "w", 0, 100), Add(held[static_cast<size_t>(r)], "v", 0, 100);
  for (int r = 2; r < 4; ++r)
    Add(needed[static_cast<size_t>(r)], "w", 0, 100), Add(needed[static_cast<size_t>(r)], "v", 0, 100);
  const auto moves = PlanMoves(held, needed);
  ASSERT_TRUE(moves.ok());
  EXPECT_EQ(Sent(*moves, 0), 200);
  EXPECT_EQ(Sent(*moves, 1), 200);
}

TEST(PlanMoves, NamesWhatNobodyHolds) {
  std::vector<Pieces> held(1), needed(1);
  Add(held[0], "w", 0, 60);
  Add(needed[0], "w", 50, 20);
  const auto moves = PlanMoves(held, needed);
  EXPECT_EQ(moves.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(moves.status().message()), HasSubstr("element 60 of w, which rank 0 needs"));
}

TEST(PlanMoves, MayLeaveWhatNobodyHolds) {
  std::vector<Pieces> held(2), needed(1);
  Add(held[0], "w", 10, 20), Add(held[1], "w", 40, 10);
  Add(needed[0], "w", 0, 100), Add(needed[0], "v", 0, 100);
  const auto moves = PlanMoves(held, needed, Missing::kLeave);
  ASSERT_TRUE(moves.ok()) << moves.status();
  std::vector<std::pair<int64_t, int64_t>> written;  // first element and count
  for (const Move& m : *moves) written.emplace_back(m.to_at, m.count);
  EXPECT_THAT(written, ElementsAre(std::pair(10, 20), std::pair(40, 10)));
}

TEST(PlanMoves, ColumnsOfOtherBandsDoNotServe) {
  std::vector<Pieces> held(1), needed(1);
  Add(held[0], "w", 0, 50);
  held[0][0].where.row = 10, held[0][0].where.width = 5;
  Add(needed[0], "w", 0, 50);
  needed[0][0].where.row = 10, needed[0][0].where.width = 5, needed[0][0].where.column = 5;
  EXPECT_FALSE(PlanMoves(held, needed).ok());
}

// Every needed element is written once, with the value that a holder has, whatever the shards are.
TEST(PlanMoves, WritesEveryNeededElementOnce) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const int before = 1 + static_cast<int>(random() % 6), after = 1 + static_cast<int>(random() % 6);
    const int64_t numel = 20 + static_cast<int64_t>(random() % 80);
    std::vector<Pieces> held(6), needed(6);
    for (int r = 0; r < before; ++r) {  // shards, and a copy of the one before
      for (const int shard : {r, (r + before - 1) % before}) {
        const int64_t from = numel * shard / before, to = numel * (shard + 1) / before;
        if (to > from) Add(held[static_cast<size_t>(r)], "w", from, to - from, numel);
      }
    }
    if (before > 1) held[random() % static_cast<size_t>(before)].clear();  // one is lost
    for (int r = 0; r < after; ++r) {
      const int64_t from = numel * r / after, to = numel * (r + 1) / after;
      if (to > from) Add(needed[static_cast<size_t>(r)], "w", from, to - from, numel);
    }
    const auto moves = PlanMoves(held, needed);
    ASSERT_TRUE(moves.ok()) << moves.status();
    std::map<std::pair<int, int64_t>, int> written;  // by rank and element
    for (const Move& m : *moves) {
      const Region& from = held[static_cast<size_t>(m.from)][static_cast<size_t>(m.from_piece)].where;
      const Region& to = needed[static_cast<size_t>(m.to)][static_cast<size_t>(m.to_piece)].where;
      EXPECT_EQ(from.first + m.from_at, to.first + m.to_at);
      EXPECT_LE(m.from_at + m.count, from.count);
      EXPECT_LE(m.to_at + m.count, to.count);
      for (int64_t i = 0; i < m.count; ++i) ++written[{m.to, to.first + m.to_at + i}];
    }
    EXPECT_EQ(static_cast<int64_t>(written.size()), numel);
    for (const auto& [where, times] : written) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace twofold::elastic
