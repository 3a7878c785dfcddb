#include "experiments/program/pictures/schedule_picture.h"

#include <algorithm>

#include "experiments/program/pictures/schedule_story.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace schedule_test {

using pipeline::Action;
using testing::HasSubstr;
using testing::Not;

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// 1F1B of two stages and `m` micro-batches, written down by hand.
std::vector<std::vector<Action>> TwoStages(int m) {
  std::vector<std::vector<Action>> stages(2);
  stages[0].push_back({Action::kForward, 0});
  for (int i = 0; i < m; ++i) {
    if (i + 1 < m) stages[0].push_back({Action::kForward, i + 1});
    stages[0].push_back({Action::kBackward, i});
    stages[1].push_back({Action::kForward, i});
    stages[1].push_back({Action::kBackward, i});
  }
  return stages;
}

TEST(Labels, AreReadAndWritten) {
  for (const char* label : {"F0", "B12", "I3", "W4.1", "R7.3"}) {
    const auto phase = PhaseOf(label);
    ASSERT_TRUE(phase.has_value()) << label;
    EXPECT_EQ(phase->Label(), label);
  }
  EXPECT_EQ(PhaseOf("W4.1")->pass, Pass::kBackwardWeights);
  EXPECT_EQ(PhaseOf("W4.1")->chunk, 1);
  EXPECT_EQ(PhaseOf("R7.3")->pass, Pass::kRecompute);
  for (const char* label : {"", "F", "X3", "Fx", "F3.", "F3.x"}) EXPECT_FALSE(PhaseOf(label).has_value()) << label;
  EXPECT_EQ(Phase().Label(), "");
}

// Of p = 2 and m = 4: 3 m units of work a stage, (p - 1) (1 + 2) of bubble.
TEST(ScheduleAlone, TakesTheTimeOfItsClosedForm) {
  const ScheduleStory story = StoryOf(TwoStages(4), {.stages = 2, .micro_batches = 4}, "1F1B");
  ASSERT_EQ(story.rows.size(), 2u);
  EXPECT_DOUBLE_EQ(story.end, 15);
  EXPECT_DOUBLE_EQ(BubbleOf(story), 1.0 / 5);
  EXPECT_FALSE(story.seconds);
  EXPECT_EQ(story.rows[0].phases[1].Label(), "F1");
  EXPECT_DOUBLE_EQ(story.rows[1].phases[0].start, 1);
  EXPECT_DOUBLE_EQ(story.rows[0].phases[2].start, 4) << "B0 begins when the last stage is done with it";
}

// The first stage passes on both chunks before it turns back; halves of backward passes take half as long.
TEST(ScheduleAlone, KnowsChunksAndHalves) {
  std::vector<std::vector<Action>> stages(2);
  for (int s = 0; s < 2; ++s) {
    for (int c = 0; c < 2; ++c) stages[static_cast<size_t>(s)].push_back({Action::kForward, 0, c});
    for (int c = 1; c >= 0; --c) stages[static_cast<size_t>(s)].push_back({Action::kBackwardInput, 0, c});
    for (int c = 1; c >= 0; --c) stages[static_cast<size_t>(s)].push_back({Action::kBackwardWeights, 0, c});
  }
  const ScheduleStory story = StoryOf(stages, {.stages = 2, .micro_batches = 1, .chunks = 2}, "by hand");
  EXPECT_DOUBLE_EQ(story.rows[0].phases[1].start, 1) << "chunk 1 comes back from stage 1";
  EXPECT_DOUBLE_EQ(story.rows[1].phases[2].start, 2);
  EXPECT_DOUBLE_EQ(story.rows[0].phases[3].end, 4);
  EXPECT_DOUBLE_EQ(story.end, 5);
  EXPECT_EQ(story.rows[0].phases[5].Label(), "W0");
}

DrawnSpan Compute(const char* label, double start, double end) {
  return {.name = "matmul_nt", .start = start, .end = end, .bytes = 0, .waiting = 0, .label = label};
}
DrawnSpan Call(const char* name, double start, double end, int64_t bytes, double waiting = 0) {
  return {.name = name, .start = start, .end = end, .bytes = bytes, .waiting = waiting, .label = ""};
}

// Two stages with two ranks each; stage 1 is ranks 2 and 3. Stage 1 waits 2 s for a message that takes 1 s.
RunData MakeRun() {
  RunData run;
  run.report.set_fabric("in_memory");
  run.report.set_world_size(4);
  run.parallel.set_pp(2), run.parallel.set_tp(2);
  for (int rank : {0, 1}) {
    run.lanes.push_back(
        {rank, "compute", {Compute("F0", 0, 1), Compute("F0", 1, 2), Compute("B0", 6, 8), Compute("", 8, 9)}});
    run.lanes.push_back({rank, "communication pp", {Call("send", 2, 3, 64), Call("recv", 3, 6, 32)}});
  }
  for (int rank : {2, 3}) {
    run.lanes.push_back(
        {rank,
         "compute",
         {Compute("F0", 3, 3.5), Compute("F0", 4, 4.5), Compute("R0", 4.5, 4.7), Compute("B0", 4.7, 5.5)}});
    run.lanes.push_back({rank, "communication pp", {Call("recv", 0, 3, 64), Call("send", 5.5, 6, 32)}});
    run.lanes.push_back({rank, "communication tp", {Call("all_reduce", 3.5, 3.9, 16, 0.3)}});
  }
  run.trace_end = 9;
  return run;
}

TEST(ScheduleOfARun, HasARowAStageAndItsPhases) {
  const ScheduleStory story = StoryOf(MakeRun());
  ASSERT_EQ(story.rows.size(), 2u);
  EXPECT_EQ(story.rows[1].name, "stage 1 (rank 2)");
  ASSERT_EQ(story.rows[0].phases.size(), 3u) << "two spans of F0 are one phase";
  EXPECT_EQ(story.rows[0].phases[0].Label(), "F0");
  EXPECT_DOUBLE_EQ(story.rows[0].phases[0].end, 2);
  EXPECT_EQ(story.rows[0].phases[2].pass, Pass::kOther);
  EXPECT_EQ(story.rows[1].phases[1].pass, Pass::kRecompute);
  EXPECT_DOUBLE_EQ(story.end, 9);
}

TEST(ScheduleOfARun, TellsCommunicationFromWaiting) {
  RunData run = MakeRun();
  run.lanes[8].spans[0] = Call("recv", 2, 3, 64);  // rank 3 came late: so long a message takes
  const ScheduleStory story = StoryOf(run);
  const ScheduleRow& row = story.rows[1];
  ASSERT_EQ(row.communication.size(), 3u);
  EXPECT_DOUBLE_EQ(row.communication[0].start, 2) << "it waited before";
  EXPECT_DOUBLE_EQ(row.communication[0].end, 3);
  EXPECT_DOUBLE_EQ(row.communication[1].start, 3.8) << "its own waiting is known";
  EXPECT_DOUBLE_EQ(row.communication[1].end, 3.9);
  EXPECT_DOUBLE_EQ(row.communication[2].start, 5.5) << "after the last phase";
  ASSERT_EQ(row.idle.size(), 2u) << "within F0, before and after the all-reduce";
  EXPECT_DOUBLE_EQ(row.idle[0].end, 3.8);
}

TEST(ScheduleOfARun, IsNothingWithoutAPipelineOrATrace) {
  RunData run = MakeRun();
  run.parallel.set_pp(1), run.parallel.set_dp(2);
  EXPECT_TRUE(StoryOf(run).rows.empty());
  EXPECT_EQ(SchedulePicture({StoryOf(run)}), "");
  EXPECT_TRUE(SchedulePicture(StoriesOf({&run})).empty());
  run = MakeRun();
  run.lanes.clear();
  EXPECT_TRUE(StoryOf(run).rows.empty());
}

TEST(SchedulePicture, DrawsPhasesWithTheirNumbers) {
  const std::string svg = SchedulePicture({StoryOf(TwoStages(4), {.stages = 2, .micro_batches = 4}, "1F1B")});
  EXPECT_EQ(Count(svg, "<title>forward, micro-batch 3; 1</title>"), 2u);
  EXPECT_EQ(Count(svg, "<title>backward, micro-batch 0; 2</title>"), 2u);
  EXPECT_EQ(Count(svg, "s-number\""), 16u);
  EXPECT_THAT(svg, HasSubstr("1F1B: 15 forward passes long"));
  EXPECT_THAT(svg, Not(HasSubstr("chunk")));
  EXPECT_THAT(svg, Not(HasSubstr(">communication<"))) << "the legend has what is drawn";
}

TEST(SchedulePicture, DrawsTwoRunsOnOneScale) {
  RunData measured = MakeRun(), predicted = MakeRun();
  predicted.report.set_predicted(true), predicted.report.set_fabric("simulated");
  measured.trace_end = 18;
  const std::string svg = SchedulePicture(StoriesOf({&predicted, &measured}));
  EXPECT_THAT(svg, HasSubstr("predicted (simulated): 9.00 s"));
  EXPECT_THAT(svg, HasSubstr("measured (in_memory): 18.0 s"));
  EXPECT_EQ(Count(svg, "stage 0 (rank 0)"), 2u);
  EXPECT_EQ(Count(svg, "x=\"120\" y=\"28\" width=\"490\""), 1u) << "9 of 18 s are half of the row";
}

TEST(SchedulePicture, ChunksAreShaded) {
  ScheduleStory story{
      .title = "t",
      .rows = {{.name = "stage 0", .phases = {{Pass::kForward, 0, 0, 0, 1}, {Pass::kForward, 0, 1, 1, 2}}}},
      .end = 2};
  const std::string svg = SchedulePicture({story});
  EXPECT_EQ(Count(svg, "fill-opacity"), 1u);
  EXPECT_THAT(svg, HasSubstr("forward, micro-batch 0, chunk 1; 1.00 s"));
}

TEST(SchedulePicture, StaysSmallHoweverLongTheSchedule) {
  ScheduleStory story = StoryOf(TwoStages(20000), {.stages = 2, .micro_batches = 20000}, "long");
  EXPECT_LE(Count(SchedulePicture({story}), "<rect"), kMostPhases + kPasses + 2);
  story.rows.resize(1);
  story.rows.resize(80, story.rows[0]);
  const std::string svg = SchedulePicture({story});
  EXPECT_THAT(svg, HasSubstr("stages 0 to 63 of 80"));
  EXPECT_LT(svg.size(), size_t{3} << 20);
}

}  // namespace schedule_test
}  // namespace twofold::pictures
