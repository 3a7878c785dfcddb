// Steps that are left out of a replay change nothing of it.
#include "experiments/program/memory/repetition.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "core/base/philox.h"
#include "core/memory/allocator.h"

namespace twofold {
namespace repetition_test {

// A program that asks for blocks as its steps and what follows them say, drawn from a seed: the same in every step.
class Program {
 public:
  explicit Program(uint64_t seed) : key_(MakeKey(seed, "program")) {}
  void Step() { Ask(0); }
  void Validate() { Ask(1000); }
  void Save() { Ask(2000); }
  const CachingAllocator& allocator() const { return allocator_; }
  const MemoryStats& stats() const { return allocator_.ledger().stats(); }

 private:
  // Some blocks outlive the step and are let go in the next.
  void Ask(uint64_t from) {
    std::vector<std::shared_ptr<Buffer>> blocks;
    for (uint64_t i = 0; i < 40; ++i) {
      const auto r = Philox(key_, from + i);
      if (r[0] % 3 == 0 && !blocks.empty())
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(r[1] % blocks.size()));
      if (r[0] % 5 == 0) kept_[i % 4].reset();
      const Bytes size(static_cast<int64_t>(r[2] % (r[3] % 3 == 0 ? 30u << 20 : 2u << 20)));
      auto block = allocator_.Allocate(size, Category::kOther);
      if (r[1] % 7 == 0)
        kept_[i % 4] = std::move(block);
      else
        blocks.push_back(std::move(block));
    }
  }
  const PhiloxKey key_;
  VirtualSource source_;
  CachingAllocator allocator_{source_, 0};
  std::shared_ptr<Buffer> kept_[4];
};

struct Figures {
  Bytes peak, reserved;
  int64_t steps;
};

Figures RunProgram(uint64_t seed, const spec::Train& train, bool whole) {
  Program program(seed);
  Repetition repetition(train);
  int64_t done = 0;
  for (int64_t step = 0; step < train.steps(); ++step, ++done) {
    if (!whole) step = repetition.Next(step, program.allocator().Fingerprint());
    EXPECT_LT(step, train.steps());
    program.Step();
    const bool validated =
        train.has_validation() && ((step + 1) % train.validation().every_steps() == 0 || step + 1 == train.steps());
    if (validated) program.Validate();
    const bool saved = train.has_checkpoint() &&
                       ((train.checkpoint().has_every_steps() && (step + 1) % train.checkpoint().every_steps() == 0) ||
                        step + 1 == train.steps());
    if (saved) program.Save();
  }
  EXPECT_EQ(whole ? done : repetition.done(), done);
  return {program.stats().peak, program.stats().peak_reserved, done};
}

TEST(Repetition, LeavesOutWhatChangesNothing) {
  int64_t done = 0, all = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const auto r = Philox(MakeKey(seed, "train"), 0);
    spec::Train train;
    train.set_steps(1 + r[0] % 90);
    if (r[1] % 3 > 0) train.mutable_validation()->set_every_steps(1 + r[2] % 12);
    if (r[1] % 4 == 0) train.mutable_checkpoint();
    if (r[1] % 8 == 0) train.mutable_checkpoint()->set_every_steps(1 + r[3] % 9);
    const Figures whole = RunProgram(seed, train, true), replayed = RunProgram(seed, train, false);
    EXPECT_EQ(replayed.peak, whole.peak) << train.ShortDebugString() << " seed " << seed;
    EXPECT_EQ(replayed.reserved, whole.reserved) << train.ShortDebugString() << " seed " << seed;
    done += replayed.steps, all += whole.steps;
  }
  EXPECT_LT(done, all / 2);
}

TEST(Repetition, DoesAFewStepsOfAnyNumber) {
  spec::Train train;
  train.set_steps(int64_t{1} << 31);
  EXPECT_LE(RunProgram(1, train, false).steps, 20);
  train.mutable_validation()->set_every_steps(1000);
  EXPECT_LE(RunProgram(1, train, false).steps, 60);
}

// The second step finds what no step found before, the third what the second found.
TEST(Repetition, LeavesRoundsOut) {
  spec::Train train;
  train.set_steps(100);
  Repetition one(train), two(train);
  EXPECT_EQ(one.Next(0, 5), 0);
  EXPECT_EQ(one.Next(1, 7), 1);
  EXPECT_EQ(one.Next(2, 7), 99);
  EXPECT_EQ(one.done(), 3);
  EXPECT_EQ(two.Next(0, 5), 0);
  EXPECT_EQ(two.Next(1, 7), 1);
  EXPECT_EQ(two.Next(2, 8), 2);
  EXPECT_EQ(two.Next(3, 7), 99) << "97 steps on: 48 rounds of two";
  EXPECT_TRUE(two.settled());
}

TEST(Repetition, GivesUpOnWhatNeverComesRound) {
  spec::Train train;
  train.set_steps(int64_t{1} << 31);
  Repetition repetition(train);
  int64_t step = 0;
  for (uint64_t found = 0; step < train.steps(); ++step) step = repetition.Next(step, found++);
  EXPECT_FALSE(repetition.settled());
  EXPECT_LE(repetition.done(), 2001);
}

TEST(Repetition, AFewStepsAreAllDone) {
  for (int64_t steps : {1, 2}) {
    spec::Train train;
    train.set_steps(steps);
    EXPECT_EQ(RunProgram(1, train, false).steps, steps);
  }
}

}  // namespace repetition_test
}  // namespace twofold
