#include "strategies/pipeline/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pipeline {
namespace schedule_test {

using ::testing::HasSubstr;

std::vector<std::vector<Action>> All(Schedule schedule, const PipelineShape& shape) {
  std::vector<std::vector<Action>> stages;
  for (int s = 0; s < shape.stages; ++s) stages.push_back(ActionsOf(schedule, shape, s));
  return stages;
}

std::string Text(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& a : actions) StrAppend(&text, text.empty() ? "" : " ", a.ToString());
  return text;
}

// Every schedule of every size that there is.
void ForAll(const std::function<void(Schedule, const PipelineShape&)>& visit) {
  for (int stages = 1; stages <= 16; ++stages) {
    for (int micro_batches = 1; micro_batches <= 64; ++micro_batches) {
      for (const Schedule s : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kZeroBubbleH1}) {
        visit(s, {.stages = stages, .micro_batches = micro_batches});
      }
      for (int chunks = 1; chunks <= 4; ++chunks) {
        const PipelineShape shape{.stages = stages, .micro_batches = micro_batches, .chunks = chunks};
        if (CheckSchedule(Schedule::kInterleaved, shape).ok()) visit(Schedule::kInterleaved, shape);
      }
    }
  }
}

std::string Name(Schedule schedule, const PipelineShape& shape) {
  return StrCat("schedule ", static_cast<int>(schedule), ", ", shape.stages, " stages, ", shape.micro_batches,
                " micro-batches, ", shape.chunks, " chunks");
}

struct Times {
  double forward = 1, input = 1, weights = 1;  // of all chunks of a stage
  double Of(const Action& a) const {
    switch (a.kind) {
      case Action::kForward: return forward;
      case Action::kBackward: return input + weights;
      case Action::kBackwardInput: return input;
      case Action::kBackwardWeights: return weights;
    }
    return 0;
  }
  double all() const { return forward + input + weights; }
};

// When the last action ends, where messages take no time.
double Makespan(Schedule schedule, const PipelineShape& shape, const Times& times) {
  const std::vector<std::vector<Action>> stages = All(schedule, shape);
  std::map<std::tuple<bool, int, int>, double> sent;  // by direction, micro-batch, part
  std::vector<double> now(stages.size());
  std::vector<size_t> next(stages.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages.size(); ++s) {
      for (; next[s] < stages[s].size(); ++next[s], moved = true) {
        const Action& a = stages[s][next[s]];
        if (const auto m = ReceivedBy(a, shape, static_cast<int>(s))) {
          const auto it = sent.find({m->forward, m->micro_batch, m->part});
          if (it == sent.end()) break;
          now[s] = std::max(now[s], it->second);
        }
        now[s] += times.Of(a) / shape.chunks;
        if (const auto m = SentBy(a, shape, static_cast<int>(s))) sent[{m->forward, m->micro_batch, m->part}] = now[s];
      }
    }
  }
  return *std::max_element(now.begin(), now.end());
}

double BubbleFraction(Schedule schedule, const PipelineShape& shape, const Times& times = {}) {
  const double makespan = Makespan(schedule, shape, times);
  return (makespan - shape.micro_batches * times.all()) / makespan;
}

TEST(Schedule, ReadsLikeThePapersFigures) {
  EXPECT_EQ(Text(ActionsOf(Schedule::kGPipe, {.stages = 4, .micro_batches = 3}, 1)), "F0 F1 F2 B2 B1 B0");
  EXPECT_EQ(Text(ActionsOf(Schedule::kOneFOneB, {.stages = 4, .micro_batches = 6}, 1)),
            "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(Text(ActionsOf(Schedule::kOneFOneB, {.stages = 4, .micro_batches = 2}, 3)), "F0 B0 F1 B1");
  // Narayanan et al. 2021, figure 4 (bottom), the last device.
  EXPECT_EQ(Text(ActionsOf(Schedule::kInterleaved, {.stages = 4, .micro_batches = 8, .chunks = 2}, 3)),
            "F0 F1 F2 F3 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4 B0 F5 B1 F6 B2 F7 B3 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 "
            "F7.1 B7.1 "
            "B4 B5 B6 B7");
  // Qi et al. 2024, figure 3 (top), the second of four devices.
  EXPECT_EQ(Text(ActionsOf(Schedule::kZeroBubbleH1, {.stages = 4, .micro_batches = 6}, 1)),
            "F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5");
}

TEST(Schedule, OnOneStageIsForwardAndBackwardByTurns) {
  EXPECT_EQ(Text(ActionsOf(Schedule::kOneFOneB, {.stages = 1, .micro_batches = 3}, 0)), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(Text(ActionsOf(Schedule::kInterleaved, {.stages = 1, .micro_batches = 2, .chunks = 2}, 0)),
            "F0 F0.1 B0.1 F1 B0 F1.1 B1.1 B1");
}

TEST(Schedule, OfOneChunkInterleavedIsOneFOneB) {
  for (int s = 0; s < 4; ++s) {
    const PipelineShape shape{.stages = 4, .micro_batches = 7};
    EXPECT_EQ(ActionsOf(Schedule::kInterleaved, shape, s), ActionsOf(Schedule::kOneFOneB, shape, s));
  }
}

TEST(Schedule, IsRefusedWhereThereIsNone) {
  EXPECT_EQ(CheckSchedule(Schedule::kInterleaved, {.stages = 4, .micro_batches = 6, .chunks = 2}).message(),
            "an interleaved schedule with 4 stages needs a number of micro-batches that is a multiple of 4 (got 6)");
  EXPECT_EQ(CheckSchedule(Schedule::kGPipe, {.stages = 2, .micro_batches = 2, .chunks = 3}).message(),
            "only the interleaved schedule supports several chunks of the model per stage (got 3)");
  int refused = 0;
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 64; ++m) {
      const bool ok = CheckSchedule(Schedule::kInterleaved, {.stages = p, .micro_batches = m, .chunks = 2}).ok();
      ASSERT_EQ(ok, m % p == 0) << p << " stages, " << m << " micro-batches";
      refused += !ok;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(Schedule, IsValid) {
  ForAll([](Schedule schedule, const PipelineShape& shape) {
    ASSERT_EQ(Validate(All(schedule, shape), shape), absl::OkStatus()) << Name(schedule, shape);
  });
}

TEST(Schedule, KeepsNoMoreInFlightThanItsFormula) {
  ForAll([](Schedule schedule, const PipelineShape& shape) {
    const int p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    for (int s = 0; s < p; ++s) {
      int most = std::min(m, p - s), unfinished = most;
      if (schedule == Schedule::kGPipe) most = unfinished = m;
      if (schedule == Schedule::kInterleaved && v > 1)
        most = unfinished = std::min(m * v, (v - 1) * p + 2 * (p - s - 1) + 1);
      if (schedule == Schedule::kZeroBubbleH1) unfinished = std::min(m, p);
      const std::vector<Action> actions = ActionsOf(schedule, shape, s);
      ASSERT_EQ(MostInFlight(actions), most) << Name(schedule, shape) << ", stage " << s;
      ASSERT_EQ(MostUnfinished(actions), unfinished) << Name(schedule, shape) << ", stage " << s;
    }
  });
}

TEST(Schedule, HasTheBubbleOfItsClosedForm) {
  ForAll([](Schedule schedule, const PipelineShape& shape) {
    const double p = shape.stages, m = shape.micro_batches, v = shape.chunks;
    double expected = (p - 1) / (m + p - 1);
    if (schedule == Schedule::kInterleaved) expected = (p - 1) / (v * m + p - 1);
    if (schedule == Schedule::kZeroBubbleH1) {
      const double idle = 2 * (p - 1) - std::min(p - 1, m - 1);  // (p - 1)(F + I - W), where W are there to fill it
      expected = idle / (3 * m + idle);
    }
    ASSERT_NEAR(BubbleFraction(schedule, shape), expected, 1e-12) << Name(schedule, shape);
  });
}

TEST(Schedule, ZeroBubbleHasItsBubbleWhereWeightsTakeNoLongerThanTheRest) {
  for (const Times& t : {Times{1, 1.2, 0.8}, Times{1, 1, 0.5}, Times{0.7, 1.5, 0.7}}) {
    for (int p = 1; p <= 8; ++p) {
      for (int m = p; m <= 32; m += 3) {
        const double idle = (p - 1) * (t.forward + t.input - t.weights);
        EXPECT_NEAR(Makespan(Schedule::kZeroBubbleH1, {.stages = p, .micro_batches = m}, t), m * t.all() + idle, 1e-9);
      }
    }
  }
}

// ---- Broken ones ----

constexpr PipelineShape kFour{.stages = 4, .micro_batches = 6};
constexpr PipelineShape kTwoChunks{.stages = 2, .micro_batches = 4, .chunks = 2};

size_t PlaceOf(const std::vector<Action>& actions, std::string_view text) {
  const auto it = std::find_if(actions.begin(), actions.end(), [&](const Action& a) { return a.ToString() == text; });
  EXPECT_NE(it, actions.end()) << text;
  return static_cast<size_t>(it - actions.begin());
}

void Swap(std::vector<Action>& actions, std::string_view a, std::string_view b) {
  std::swap(actions[PlaceOf(actions, a)], actions[PlaceOf(actions, b)]);
}

std::string Problem(const std::vector<std::vector<Action>>& stages, const PipelineShape& shape) {
  return std::string(Validate(stages, shape).message());
}

TEST(Validate, FindsWhatIsMissing) {
  std::vector<std::vector<Action>> stages = All(Schedule::kOneFOneB, kFour);
  stages[2].pop_back();
  EXPECT_EQ(Problem(stages, kFour), "stage 2: B5 is missing");
  stages = All(Schedule::kZeroBubbleH1, kFour);
  std::erase(stages[3], Action{Action::kBackwardWeights, 2});
  EXPECT_EQ(Problem(stages, kFour), "stage 3: W2 is missing");
  stages.pop_back();
  EXPECT_EQ(Problem(stages, kFour), "there are actions for 3 stages, but the pipeline has 4");
}

TEST(Validate, FindsWhatComesAgain) {
  std::vector<std::vector<Action>> stages = All(Schedule::kOneFOneB, kFour);
  stages[1].push_back({Action::kForward, 2});
  EXPECT_EQ(Problem(stages, kFour), "stage 1: F2 is repeated or comes too late");
  stages = All(Schedule::kOneFOneB, kFour);
  stages[1].push_back({Action::kBackwardWeights, 2});
  EXPECT_EQ(Problem(stages, kFour), "stage 1: W2 is repeated or comes too late");
  stages = All(Schedule::kOneFOneB, kFour);
  stages[0].push_back({Action::kForward, 6});
  EXPECT_EQ(Problem(stages, kFour), "stage 0: F6 does not exist: there are 6 micro-batches and 1 chunks");
}

TEST(Validate, FindsABackwardBeforeItsForward) {
  std::vector<std::vector<Action>> stages = All(Schedule::kOneFOneB, kFour);
  Swap(stages[3], "F1", "B1");
  EXPECT_EQ(Problem(stages, kFour), "stage 3: B1 comes before an action that it needs");
  stages = All(Schedule::kZeroBubbleH1, kFour);
  Swap(stages[3], "I1", "W1");
  EXPECT_EQ(Problem(stages, kFour), "stage 3: W1 comes before an action that it needs");
}

TEST(Validate, FindsMessagesOutOfOrder) {
  std::vector<std::vector<Action>> stages = All(Schedule::kGPipe, kFour);
  Swap(stages[2], "F3", "F4");
  EXPECT_THAT(Problem(stages, kFour),
              HasSubstr("expects the activation of micro-batch 4 from part 1 where stage 1 sends the "
                        "activation of micro-batch 3 from part 1"));
  stages = All(Schedule::kInterleaved, kTwoChunks);
  Swap(stages[0], "B0.1", "B1.1");
  EXPECT_THAT(Problem(stages, kTwoChunks),
              HasSubstr("stage 1 expects the gradient of micro-batch 0 from part 2 where stage 0 sends "
                        "the gradient of micro-batch 1 from part 2"));
}

TEST(Validate, FindsADeadlock) {
  // The first stage wants a gradient back before the second has begun, which waits for a second activation.
  const PipelineShape two{.stages = 2, .micro_batches = 2};
  std::vector<std::vector<Action>> stages = {ActionsOf(Schedule::kOneFOneB, {.stages = 1, .micro_batches = 2}, 0),
                                             ActionsOf(Schedule::kGPipe, {.stages = 1, .micro_batches = 2}, 0)};
  std::swap(stages[1][2], stages[1][3]);  // B0 B1, as the first stage has them
  EXPECT_EQ(Problem(stages, two),
            "stage 0 waits in B0 for the gradient of micro-batch 0 from part 1; "
            "stage 1 waits in F1 for the activation of micro-batch 1 from part 0");
}

// The first stage takes no gradient before it has sent all activations, the second sends one after each: each waits
// until the other has taken what it sent.
TEST(Validate, FindsADeadlockOfSends) {
  const PipelineShape two{.stages = 2, .micro_batches = 6};
  std::vector<std::vector<Action>> stages = {ActionsOf(Schedule::kGPipe, two, 0),
                                             ActionsOf(Schedule::kOneFOneB, two, 1)};
  std::reverse(stages[0].begin() + 6, stages[0].end());
  EXPECT_EQ(Problem(stages, two),
            "stage 0 waits until stage 1 takes the activation of micro-batch 2 from part 0; "
            "stage 1 waits until stage 0 takes the gradient of micro-batch 0 from part 1");
}

}  // namespace schedule_test
}  // namespace twofold::pipeline
