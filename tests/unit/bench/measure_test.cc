// The rank function: on a fabric that works, and on one that does nothing.
#include "experiments/program/bench/measure.h"

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::bench {
namespace measure_test {

class DoneState : public Work::State {
 public:
  void Wait() override {}
  void WaitOn(Stream&) override {}
  bool Test() override { return true; }
  size_t WaitAny(std::span<Work::State* const>) override { return 0; }
};

// Rank 0 of three, whose communication is done at once and moves nothing.
class IdleGroup : public ProcessGroup {
 public:
  IdleGroup(Device& device, CommunicationStats& stats) : ProcessGroup("idle", 0, {0, 1, 2}, device, stats) {}
  std::unique_ptr<ProcessGroup> Split(int, int, std::string) override { return nullptr; }

 private:
  Issued Issue(const Communication&, CommunicationStats::Entry&) override {
    return {std::make_shared<DoneState>(), {}};
  }
};

// A second passes between any two looks.
class SteppingClock : public Clock {
 public:
  Seconds Now() override { return Seconds(static_cast<double>(looks_++)); }

 private:
  int looks_ = 0;
};

Request RequestFor(std::string_view name) {
  Request request;
  request.operation = FindOperation(name);
  request.iterations = 4;
  request.warmup = 1;
  request.blocks = {1, 1000};
  return request;
}

class Idle : public testing::Test {
 protected:
  // What a rank with so much memory returns; where that is too little, its partial result.
  std::string Measure(const Request& request, Bytes memory = GiB(1)) {
    MallocSource source(memory);
    CachingAllocator allocator(source, 0);
    CpuDevice device(allocator, 1);
    CommunicationStats stats;
    IdleGroup world(device, stats);
    SteppingClock clock;
    RankContext ctx({.rank = 0, .world_size = 3, .device = &device, .world = &world, .clock = &clock});
    std::string result;
    try {
      result = MeasureRank(ctx, request);
    } catch (const OutOfMemory& e) {
      out_of_memory_ = e.what();
      result = ctx.partial_result();
    }
    peak_reserved_ = ctx.memory().peak_reserved;
    return result;
  }

  Bytes peak_reserved_;
  std::string out_of_memory_;
};

TEST_F(Idle, EverythingThatWasNotMovedIsWrong) {
  // Elements of `out` at rank 0 for a block of 1000, all of which another rank or a reduction should have changed...
  const std::pair<const char*, int64_t> kWrong[] = {
      {"all_reduce", 1000}, {"all_gather", 3000}, {"reduce_scatter", 1000}, {"reduce", 1000},
      {"gather", 3000},     {"scatter", 1000},    {"all_to_all", 3000},     {"send_recv", 1000}};
  for (const auto& [name, wrong] : kWrong) {
    const Request request = RequestFor(name);
    const std::string one = Measure(request);
    const std::vector<Row> rows = CombineRanks(request, {one, one, one});
    ASSERT_EQ(rows.size(), 2u) << name;
    const Timing timing = rows[1].out_of_place ? *rows[1].out_of_place : *rows[1].in_place;
    EXPECT_EQ(timing.wrong, 3 * wrong) << name;
  }
  // ...but for the root of a broadcast, which has it, and its own block in place.
  const Request broadcast = RequestFor("broadcast"), all_gather = RequestFor("all_gather");
  EXPECT_EQ(CombineRanks(broadcast, {Measure(broadcast)})[1].in_place->wrong, 0);
  EXPECT_EQ(CombineRanks(all_gather, {Measure(all_gather)})[1].in_place->wrong, 2000);
}

TEST_F(Idle, TimesTheLoopAlone) {
  const Request request = RequestFor("reduce_scatter");
  for (const Row& row : CombineRanks(request, {Measure(request)})) {
    EXPECT_EQ(row.out_of_place->seconds, 0.25);
    EXPECT_EQ(row.in_place->seconds, 0.25);
  }
}

TEST_F(Idle, TimeIsTheMeanOverRanksOrTheLastRanks) {
  Request fast = RequestFor("all_reduce"), slow = fast;
  fast.iterations = 4, slow.iterations = 1;
  const std::vector<std::string> results = {Measure(fast), Measure(slow), Measure(fast), Measure(fast)};
  EXPECT_EQ(CombineRanks(fast, results)[0].in_place->seconds, (3 * 0.25 + 1) / 4);
  fast.last_rank = true;
  EXPECT_EQ(CombineRanks(fast, results)[0].in_place->seconds, 1);
}

TEST_F(Idle, LeavesWhatIsNotCheckedOpen) {
  Request request = RequestFor("all_reduce");
  request.check = false;
  const std::vector<Row> rows = CombineRanks(request, {Measure(request)});
  EXPECT_FALSE(rows[0].in_place->wrong.has_value());
  EXPECT_FALSE(rows[0].out_of_place.has_value());
}

TEST_F(Idle, KeepsWhatWasDoneWhenMemoryEnds) {
  Request request = RequestFor("all_to_all");
  request.blocks = {10, 1 << 20};  // the second: 12 MB on each side
  EXPECT_EQ(CombineRanks(request, {Measure(request, MiB(16))}).size(), 1u);
  EXPECT_THAT(out_of_memory_, testing::HasSubstr("out of memory: asked for 12,582,912 bytes"));
}

// 12, 16 and 20 MiB in turn, each a segment of its own.
TEST_F(Idle, FreesASizeBeforeTheNext) {
  Request request = RequestFor("all_reduce");
  request.blocks = {3 << 20, 4 << 20, 5 << 20};
  EXPECT_EQ(CombineRanks(request, {Measure(request)}).size(), 3u);
  EXPECT_EQ(peak_reserved_, MiB(20));
}

TEST_F(Idle, RowsEndWhereARankDid) {
  const Request request = RequestFor("all_reduce");
  const std::string whole = Measure(request);
  EXPECT_EQ(CombineRanks(request, {whole, whole.substr(0, whole.size() / 2)}).size(), 1u);
  EXPECT_EQ(CombineRanks(request, {whole, ""}).size(), 0u);
  EXPECT_EQ(CombineRanks(request, {}).size(), 0u);
}

RunResult RunInMemory(int ranks, const Request& request) {
  return MakeInMemoryFabric(spec::Spec(), in_memory::GroupOptions{})->Run(ranks, [&](RankContext& ctx) {
    return MeasureRank(ctx, request);
  });
}

TEST(InMemory, EveryOperationIsRight) {
  for (const Operation& op : Operations()) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kU8}) {
      Request request = RequestFor(op.name);
      request.dtype = dtype;
      request.root = op.rooted ? 2 : 0;
      const RunResult result = RunInMemory(3, request);
      ASSERT_TRUE(result.status.ok()) << op.name << ": " << result.status;
      const std::vector<Row> rows = CombineRanks(request, result.results);
      ASSERT_EQ(rows.size(), 2u);
      EXPECT_EQ(rows[1].bytes, (op.split ? 3000 : 1000) * ElementSize(dtype)) << op.name;
      for (const Row& row : rows) {
        EXPECT_EQ(row.out_of_place.has_value(), op.out_of_place) << op.name;
        EXPECT_EQ(row.in_place.has_value(), op.in_place) << op.name;
        for (const auto& timing : {row.out_of_place, row.in_place}) {
          if (!timing) continue;
          EXPECT_EQ(timing->wrong, 0) << op.name << " " << DTypeName(dtype);
          EXPECT_GT(timing->seconds, 0) << op.name;
        }
      }
    }
  }
}

TEST(InMemory, ReportsProgressOnce) {
  Request request = RequestFor("all_gather");
  std::vector<size_t> seen;
  request.progress = [&seen](size_t i) { seen.push_back(i); };
  ASSERT_TRUE(RunInMemory(3, request).status.ok());
  EXPECT_THAT(seen, testing::ElementsAre(0, 1));
}

}  // namespace measure_test
}  // namespace twofold::bench
