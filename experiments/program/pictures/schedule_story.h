// What each stage of a pipeline computes when, for drawing: of a traced run, or of a schedule alone.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/program/pictures/run_data.h"
#include "strategies/pipeline/schedule.h"

namespace twofold::pictures {

enum class Pass { kForward, kBackward, kBackwardInput, kBackwardWeights, kRecompute, kOther };
inline constexpr int kPasses = 6;

struct Phase {
  Pass pass = Pass::kOther;  // kOther: the update, and everything else outside the schedule
  int micro_batch = 0, chunk = 0;
  double start = 0, end = 0;
  std::string Label() const;  // as pipeline::Action writes it: "F3", "W3.1"; empty: kOther
};
// Parses a span's label; "R3" is a recomputed forward pass. nullopt if it is not such a label.
std::optional<Phase> PhaseOf(std::string_view label);

struct Stretch {
  double start, end;
};
struct ScheduleRow {
  std::string name;                    // "stage 0", "stage 1 (rank 4)"
  std::vector<Phase> phases;           // by start
  std::vector<Stretch> communication;  // exposed communication: between phases or within one
  std::vector<Stretch> idle;           // within a phase, for other reasons
};
struct ScheduleStory {
  std::string title;
  std::vector<ScheduleRow> rows;  // by stage
  double end = 0;
  bool seconds = true;  // false: the unit is one forward pass of a stage
};

// The story of a traced run with a pipeline; no rows if it has no pipeline or was not traced. One row per stage, of its
// first rank. Communication times exclude a call's own waiting: the recorded waiting or, if none was recorded, the time
// by which the call took longer than the shortest call of its kind and size.
ScheduleStory StoryOf(const RunData& run);
std::vector<ScheduleStory> StoriesOf(const std::vector<const RunData*>& runs);

// The story of the actions alone (pipeline::ActionsOf), by stage. Every stage acts as soon as it can and messages take
// no time. A forward pass of a whole stage takes 1 and its backward pass 2, each half of the backward pass 1. A pass of
// one of v chunks takes a v-th of that. The schedule must be valid (pipeline::Validate).
ScheduleStory StoryOf(const std::vector<std::vector<pipeline::Action>>& stages, const pipeline::PipelineShape& shape,
                      std::string title);

// The share of the stages' time in which they compute nothing, of such a story.
double BubbleOf(const ScheduleStory& story);

}  // namespace twofold::pictures
