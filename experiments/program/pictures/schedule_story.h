// A pipeline at work, as it is drawn: what each stage computes when, of a run that was traced or of a schedule alone.
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
  Pass pass = Pass::kOther;  // kOther: the update, and all else that is no part of the schedule
  int micro_batch = 0, chunk = 0;
  double start = 0, end = 0;
  std::string Label() const;  // as pipeline::Action has it: "F3", "W3.1"; empty: kOther
};
// From a span's label; "R3" is a recomputed forward pass. None: it is no such label.
std::optional<Phase> PhaseOf(std::string_view label);

struct Stretch {
  double start, end;
};
struct ScheduleRow {
  std::string name;                    // "stage 0", "stage 1 (rank 4)"
  std::vector<Phase> phases;           // by start
  std::vector<Stretch> communication;  // while nothing was computed: between phases or within one
  std::vector<Stretch> idle;           // within a phase, for other reasons
};
struct ScheduleStory {
  std::string title;
  std::vector<ScheduleRow> rows;  // by stage
  double end = 0;
  bool seconds = true;            // false: one forward pass of a stage takes 1
};

// Of a traced run with a pipeline; empty rows: it has none, or was not traced. A row a stage, of its first rank. Times of
// communication are what is left of a call when its own waiting is taken off: that which was recorded or, where nothing was,
// what it took longer than the shortest call of its kind and size.
ScheduleStory StoryOf(const RunData& run);
std::vector<ScheduleStory> StoriesOf(const std::vector<const RunData*>& runs);

// Of the actions alone (pipeline::ActionsOf), by stage: every stage acts as soon as it can, messages take no time, a forward
// pass of a whole stage takes 1 and its backward pass 2, each half of it 1; passes of one of v chunks take a v-th of that. The
// schedule must be a valid one (pipeline::Validate).
ScheduleStory StoryOf(const std::vector<std::vector<pipeline::Action>>& stages, const pipeline::PipelineShape& shape, std::string title);

// The share of the stages' time that they compute nothing, of such a story.
double BubbleOf(const ScheduleStory& story);

}  // namespace twofold::pictures
