#include "experiments/program/plan/pipeline_bound.h"

#include <gtest/gtest.h>

#include <vector>

namespace twofold::plan {
namespace {

using pipeline::PipelineShape;
using pipeline::Schedule;

// Stages that take F = 1 and B = 2 (I = W = 1) for all of their chunks together.
std::vector<StageTimes> Equal(int stages, int chunks) {
  const double share = 1.0 / chunks;
  const ChunkTimes chunk{
      .forward = share, .backward = {2 * share, 2 * share}, .weights = {share, share}, .input = share};
  return std::vector<StageTimes>(static_cast<size_t>(stages),
                                 {.chunks = std::vector<ChunkTimes>(static_cast<size_t>(chunks), chunk)});
}

// A step from last action to last action is as long as from first to last, if nothing comes between steps.
double PathOf(Schedule schedule, const PipelineShape& shape) {
  const double last = schedule == Schedule::kZeroBubbleH1 ? 1.0 : 2.0 / shape.chunks;
  return LongestPath(schedule, shape, Equal(shape.stages, shape.chunks), 1.0 / shape.chunks + last);
}

// schedule.h states how long a stage idles.
TEST(PipelineBoundTest, IsTheTimeOfTheSchedule) {
  EXPECT_DOUBLE_EQ(PathOf(Schedule::kOneFOneB, {.stages = 4, .micro_batches = 8}), 8 * 3 + 3 * 3);
  EXPECT_DOUBLE_EQ(PathOf(Schedule::kGPipe, {.stages = 4, .micro_batches = 8}), 8 * 3 + 3 * 3);
  EXPECT_DOUBLE_EQ(PathOf(Schedule::kInterleaved, {.stages = 4, .micro_batches = 8, .chunks = 2}), 8 * 3 + 3 * 3 / 2.0);
  EXPECT_DOUBLE_EQ(PathOf(Schedule::kZeroBubbleH1, {.stages = 4, .micro_batches = 8}), 8 * 3 + 3 * 1);
  EXPECT_DOUBLE_EQ(PathOf(Schedule::kOneFOneB, {.stages = 1, .micro_batches = 5}), 15);
}

TEST(PipelineBoundTest, CountsMessagesAndWhatIsBetweenSteps) {
  const PipelineShape shape{.stages = 2, .micro_batches = 1};
  std::vector<StageTimes> stages = Equal(2, 1);
  stages[0].to_next = 0.25;  // there and back
  EXPECT_DOUBLE_EQ(LongestPath(Schedule::kOneFOneB, shape, stages, 1 + 2), 6 + 2 * 0.25);
  EXPECT_DOUBLE_EQ(LongestPath(Schedule::kOneFOneB, shape, stages, 1 + 2 + 5), 6 + 2 * 0.25 + 5);
}

// What a stage gathers first costs nothing while it waits for the action's message, and else its time.
TEST(PipelineBoundTest, GathersWhileItWaits) {
  std::vector<StageTimes> stages = Equal(2, 1);
  stages[1].whole = stages[1].chunks;
  stages[1].whole[0].forward += 0.5;
  EXPECT_DOUBLE_EQ(LongestPath(Schedule::kOneFOneB, {.stages = 2, .micro_batches = 1}, stages, 1 + 2), 6);
  // The second stage waits for its first message alone.
  EXPECT_DOUBLE_EQ(LongestPath(Schedule::kOneFOneB, {.stages = 2, .micro_batches = 8}, stages, 1 + 2),
                   8 * 3 + 3 + 7 * 0.5);
  // A step begins with the first stage's last action: with what it gathers for it, before the message comes.
  stages[0].whole = stages[0].chunks;
  for (double& backward : stages[0].whole[0].backward) backward += 0.25;
  EXPECT_DOUBLE_EQ(LongestPath(Schedule::kOneFOneB, {.stages = 2, .micro_batches = 1}, stages, 1 + 2 + 0.25), 6);
}

// GPipe's first backward pass is that of its last micro-batch.
TEST(PipelineBoundTest, TheFirstBackwardPassIsApart) {
  std::vector<StageTimes> stages = Equal(1, 1);
  stages[0].chunks[0].backward[0] = 1.5;
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kGPipe})
    EXPECT_DOUBLE_EQ(LongestPath(schedule, {.stages = 1, .micro_batches = 3}, stages, 3), 3 + 1.5 + 3 + 1);
}

// The quick bound is never above the longest path, whichever stage is the slowest.
TEST(PipelineBoundTest, QuickIsBelow) {
  for (const Schedule schedule :
       {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kInterleaved, Schedule::kZeroBubbleH1}) {
    for (int slow = 0; slow < 4; ++slow) {
      for (int m : {4, 8, 32}) {
        const int chunks = schedule == Schedule::kInterleaved ? 3 : 1;
        const PipelineShape shape{.stages = 4, .micro_batches = m, .chunks = chunks};
        std::vector<StageTimes> stages = Equal(4, chunks);
        for (ChunkTimes& c : stages[static_cast<size_t>(slow)].chunks)
          c.forward *= 1.7, c.backward[0] *= 1.2, c.backward[1] *= 1.3, c.input *= 1.1, c.weights[1] *= 1.4;
        const ChunkTimes& first = stages[0].chunks[0];
        const double last = schedule == Schedule::kZeroBubbleH1 ? first.weights[1] : first.backward[1];
        const double path = LongestPath(schedule, shape, stages, first.forward + last);
        const double quick = QuickPath(schedule, shape, stages);
        EXPECT_LE(quick, path * (1 + 1e-12)) << static_cast<int>(schedule) << " " << slow << " " << m;
        EXPECT_GE(quick, path * 0.6) << static_cast<int>(schedule) << " " << slow << " " << m;
      }
    }
  }
}

}  // namespace
}  // namespace twofold::plan
