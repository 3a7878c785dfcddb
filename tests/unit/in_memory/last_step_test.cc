// How ranks agree on the step after which a run ends that SIGTERM asks to end.
#include "backends/host/last_step.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/in_memory/fabric.h"
#include "backends/processes/last_step_vote.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace last_step_test {

RunResult RunRanks(int ranks, const RankFunction& fn) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory();
  return MakeInMemoryFabric(spec, in_memory::GroupOptions{})->Run(ranks, fn);
}

// Rank r stays r steps behind rank 0, as stages of a pipeline do.
TEST(LastStep, IsTheSameForRanksThatAreAtDifferentSteps) {
  constexpr int kRanks = 4;
  for (int64_t at = 0; at < 30; ++at) {
    std::vector<std::atomic<int64_t>> last(kRanks);
    for (auto& l : last) l = -1;
    std::atomic<int64_t> first = 0;  // the step that rank 0 is in
    const RunResult result = RunRanks(kRanks, [&](RankContext& c) -> std::string {
      int64_t step = 0;
      for (; c.MayBegin(step); ++step) {
        if (c.rank() == at % kRanks && step == at) kill(getpid(), SIGTERM);
        if (c.rank() == 0) first = step;
        while (c.rank() > 0 && step + c.rank() > first && last[0] < 0) std::this_thread::yield();
      }
      last[static_cast<size_t>(c.rank())] = step - 1;
      c.CheckInterrupt();  // the signal has not interrupted it
      return "";
    });
    ASSERT_TRUE(result.status.ok()) << result.status;
    for (const auto& l : last) EXPECT_EQ(l, last[0]);
    EXPECT_GE(last[0], at);
  }
}

TEST(LastStep, OtherSignalsInterruptAsEver) {
  const RunResult result = RunRanks(2, [&](RankContext& c) -> std::string {
    for (int64_t step = 0; c.MayBegin(step); ++step) {
      if (c.rank() == 0 && step == 3) kill(getpid(), SIGINT);
      c.CheckInterrupt();
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
}

TEST(LastStep, WithoutItSigtermInterrupts) {
  const RunResult result = RunRanks(1, [&](RankContext& c) -> std::string {
    kill(getpid(), SIGTERM);
    for (int looks = 0; looks < 10'000; ++looks) {  // another thread may handle it, a moment later
      c.CheckInterrupt();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
}

// Processes whose messages a test delivers.
struct Processes {
  explicit Processes(int count) {
    for (int r = 0; r < count; ++r) {
      votes.push_back(std::make_unique<processes::LastStepVote>(count, [this, r](control::Relayed message) {
        message.set_from(r);
        messages.push_back(std::move(message));
      }));
    }
  }
  host::LastStep& operator[](size_t rank) { return *votes[rank]->last_step(); }
  void Ask(int rank) {
    control::Relayed ask;
    ask.set_from(rank);
    ask.set_to(0);
    ask.mutable_last_step()->set_ask(true);
    messages.push_back(ask);
  }
  // Delivers all messages but those that wait for a rank that is `deaf`.
  void Deliver(int deaf = -1) {
    std::deque<control::Relayed> kept;
    for (; !messages.empty(); messages.pop_front()) {
      const control::Relayed message = messages.front();
      if (message.to() == deaf)
        kept.push_back(message);
      else
        votes[static_cast<size_t>(message.to())]->Hear(message);
    }
    messages = std::move(kept);
  }
  std::vector<std::unique_ptr<processes::LastStepVote>> votes;
  std::deque<control::Relayed> messages;
};

struct Ended : std::runtime_error {
  Ended() : runtime_error("the run has ended") {}
};

TEST(LastStepVote, FindsTheGreatestThatAnyProcessHasBegun) {
  for (const std::vector<int>& asking : {std::vector<int>{0}, {2}, {1, 2}, {0, 1, 2}}) {
    Processes all(3);
    const auto never = [] { FAIL() << "nobody waits"; };
    for (const auto& [rank, begun] : {std::pair<size_t, int64_t>(0, 4), {1, 6}, {2, 5}}) {
      for (int64_t step = 0; step <= begun; ++step) EXPECT_TRUE(all[rank].MayBegin(step, never));
    }
    for (const int rank : asking) all.Ask(rank);
    all.Deliver();
    EXPECT_TRUE(all.messages.empty());
    for (size_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(all[rank].MayBegin(6, never));
      EXPECT_FALSE(all[rank].MayBegin(7, never));
    }
  }
}

TEST(LastStepVote, ARankThatIsHeldWaitsForAllAndLooksWhetherTheRunEnds) {
  Processes all(3);
  for (size_t rank = 0; rank < 3; ++rank) EXPECT_TRUE(all[rank].MayBegin(0, [] {}));
  all.Ask(1);
  all.Deliver(/*deaf=*/2);
  int looks = 0;
  EXPECT_THROW(all[0].MayBegin(1,
                               [&] {
                                 if (++looks == 2) throw Ended();
                               }),
               Ended);
  EXPECT_TRUE(all[2].MayBegin(1, [] {})) << "it has heard of nothing";
  all.Deliver();
  EXPECT_TRUE(all[0].MayBegin(1, [] {})) << "rank 2 needs it";
  EXPECT_FALSE(all[0].MayBegin(2, [] {}));
}

TEST(LastStepVote, IsNoneIfNoStepHasBegun) {
  Processes all(2);
  all.Ask(0);
  all.Deliver();
  EXPECT_FALSE(all[0].MayBegin(0, [] {}));
  EXPECT_FALSE(all[1].MayBegin(0, [] {}));
}

}  // namespace last_step_test
}  // namespace twofold
