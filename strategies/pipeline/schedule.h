// What each stage of a pipeline does, in which order: data, so that a test can check it and a picture can draw it.
//
// With p stages, m micro-batches and v chunks of the model on each stage, chunk c of stage s is part c * p + s of the model's
// p * v parts: micro-batches pass the stages in turn, v times. What a part sends and receives follows: a forward pass receives
// its activation from the part before it and sends its output to the part after it, a backward pass the other way about.
//   GPipe            all forward passes, then all backward passes (Huang et al. 2019, section 2.3)
//   1F1B             as few forward passes ahead as fill the pipeline (Narayanan et al. 2021, section 2.2.1; PipeDream-Flush)
//   interleaved      1F1B over p * v parts; p divides m (Narayanan et al. 2021, section 2.2.2)
//   zero bubble H1   1F1B whose backward passes are cut into the input's and the weights' gradients; the latter fill what would
//                    be idle at the end (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 2.3)
// In units of one forward pass F and one backward pass B of a stage, the time that a stage idles is
//   GPipe, 1F1B (p - 1)(F + B);  interleaved (p - 1)(F + B) / v;  zero bubble H1 (p - 1)(F + B_input - B_weights)
// and the forward passes in flight at once, hence the activations kept, are at most
//   GPipe m;  1F1B min(m, p - s);  interleaved min(m v, (v - 1) p + 2 (p - s - 1) + 1);  zero bubble H1 min(m, p - s)
// (of which zero bubble keeps parts until the weights' gradients are done).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace twofold::pipeline {

struct Action {
  enum Kind {
    kForward,
    kBackward,         // both halves
    kBackwardInput,    // the gradient of the input
    kBackwardWeights,  // the gradients of the parameters; after this micro-batch's kBackwardInput
  } kind;
  int micro_batch = 0, chunk = 0;
  friend bool operator==(const Action&, const Action&) = default;
  std::string ToString() const;  // "F3", "B3", "I3", "W3"; with a chunk above 0 "F3.1"
};

enum class Schedule { kGPipe, kOneFOneB, kInterleaved, kZeroBubbleH1 };

struct Shape {
  int stages = 1, micro_batches = 1;
  int chunks = 1;  // of the model on each stage; above 1: interleaved
};

// Whether there is such a schedule; else why not and what would do.
absl::Status CheckSchedule(Schedule schedule, const Shape& shape);
// The actions of one stage. The schedule must be one (CheckSchedule).
std::vector<Action> ActionsOf(Schedule schedule, const Shape& shape, int stage);

// Runs the actions of all stages against each other, without time: every part of every micro-batch goes forward once and back once
// in the right order on the right stage, nobody waits for what never comes, and messages between two stages are received in the
// order in which they are sent. Says what is wrong first.
absl::Status Validate(const std::vector<std::vector<Action>>& stages, const Shape& shape);

// Of the actions of one stage: micro-batches (times chunks) that have gone forward and not back, at most.
int MostInFlight(const std::vector<Action>& actions);

}  // namespace twofold::pipeline
