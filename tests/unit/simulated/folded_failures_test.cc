// Failures of folded ranks, of which one actor stands for all: what is found is what all do alike, and what they do not
// do alike unfolds them.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/simulated/failure_rig.h"

namespace twofold {
namespace folded_failures_test {

using testing::Each;
using Code = absl::StatusCode;

class FoldedFailures : public testing::Test {
 protected:
  RunResult Run(int ranks, const RankFunction& fn, double timeout_s = 60) {
    return RunRanks({"Folded", kStar, spec::Simulated::SYMBOLIC}, ranks, fn, timeout_s, spec::Simulated::AUTO);
  }
};

TEST_F(FoldedFailures, AnExceptionOfAllIsTheFirstOnes) {
  const RunResult result = Run(4, [](RankContext& c) -> std::string {
    c.SetPartialResult("so far");
    throw std::runtime_error("injected");
  });
  EXPECT_EQ(Message(result), "rank 0: std::runtime_error: injected");
  EXPECT_THAT(result.results, testing::AllOf(testing::SizeIs(4), Each("so far")));
  EXPECT_THAT(result.notes, testing::Contains("ranks are folded: rank 0 stands for all 4"));
}

TEST_F(FoldedFailures, AnExitAndAHangAreFound) {
  const RunResult exited = Run(4, [](RankContext& c) -> std::string {
    c.world().Barrier().Wait();
    exit(3);
  });
  EXPECT_EQ(Message(exited),
            "rank 0: the simulation's process ended with exit status 3 while this rank was running; its last call was "
            "barrier (0 bytes), "
            "collective 1 of group world");
  const RunResult hung = Run(
      4,
      [](RankContext&) -> std::string {
        while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
      },
      0.5);
  EXPECT_EQ(hung.status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(hung.notes, testing::Contains("ranks are folded: rank 0 stands for all 4"));
}

// What ranks do not do alike is no failure: they are simulated one by one.
TEST_F(FoldedFailures, MessagesUnfoldTheRanks) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    Tensor t = Zeros(c, 10);
    (c.rank() == 0 ? c.world().Send(t, 1) : c.world().Recv(t, 0)).Wait();
    return std::to_string(c.rank());
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results, testing::ElementsAre("0", "1"));
  EXPECT_THAT(result.notes, testing::Contains("ranks were not folded: identical ranks send messages to each other"));
}

TEST_F(FoldedFailures, UnequalCountsUnfoldTheRanksAndAreCompared) {
  auto exchange = [](RankContext& c, std::vector<int64_t> in, std::vector<int64_t> out) -> std::string {
    Tensor a = Zeros(c, 10), b = Zeros(c, 10);
    c.world().AllToAllV(b, out, a, in).Wait();
    return "whole";
  };
  const RunResult alike = Run(2, [&](RankContext& c) { return exchange(c, {2, 2}, {2, 2}); });
  EXPECT_TRUE(alike.status.ok()) << alike.status;
  EXPECT_THAT(alike.notes, testing::Contains("ranks are folded: rank 0 stands for all 2"));
  const RunResult wrong = Run(2, [&](RankContext& c) { return exchange(c, {2, 3}, {2, 3}); });
  EXPECT_EQ(wrong.status.code(), Code::kInvalidArgument);
  EXPECT_EQ(Message(wrong),
            "collective mismatch in group world, collective 1: rank 0 calls all_to_all_v expecting 3 elements (12 "
            "bytes) from rank 1 "
            "of the group, rank 1 calls all_to_all_v sending 2 elements (8 bytes) to rank 0 of the group");
}

}  // namespace folded_failures_test
}  // namespace twofold
