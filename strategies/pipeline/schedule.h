// What each stage of a pipeline does, and in which order. Schedules are data, so that tests can check them and plots
// show them.
//
// With p stages, m micro-batches and v chunks of the model on each stage, chunk c of stage s is part c * p + s of the
// model's p * v parts, so micro-batches pass through the stages in turn, v times. This determines the messages: a
// forward pass receives its activation from the part before it and sends its output to the part after it, a backward
// pass the reverse.
//   GPipe            all forward passes, then all backward passes (Huang et al. 2019, section 2.3)
//   1F1B             only as many forward passes ahead as fill the pipeline (Narayanan et al. 2021, section 2.2.1;
//                    PipeDream-Flush)
//   interleaved      1F1B over p * v parts; p divides m (Narayanan et al. 2021, section 2.2.2). With one chunk it is
//                    1F1B
//   zero bubble H1   1F1B whose backward passes are split into the gradients of the input and of the weights. Stage s
//                    postpones the latter by s micro-batches, and they fill the idle time at the end (Qi et al. 2024,
//                    "Zero Bubble Pipeline Parallelism", section 2.2)
// Let F be the time of one forward pass and B = I + W that of one backward pass (input and weights), for all chunks of
// a stage. A stage works for m (F + B) and idles for
//   GPipe, 1F1B (p - 1)(F + B);  interleaved (p - 1)(F + B) / v;  zero bubble H1 (p - 1)(F + I - W)
// (the last holds if W <= F, W <= I and m >= p; with fewer micro-batches and F = I = W, only m - 1 weights' gradients
// can fill the idle time: (p - 1)(F + I) - (m - 1) W).
// The number of forward passes whose backward pass has not begun, which is the number of activations kept, is at most
// (MostInFlight)
//   GPipe m;  1F1B and zero bubble H1 min(m, p - s);  interleaved min(m v, (v - 1) p + 2 (p - s - 1) + 1)
// Including those whose weights' gradients are not computed yet, for which part of the activations is kept
// (MostUnfinished), zero bubble H1 has min(m, p).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace twofold::pipeline {

struct Action {
  enum Kind {
    kForward,
    kBackward,         // both halves
    kBackwardInput,    // the gradient of the input
    kBackwardWeights,  // the gradients of the parameters; runs after this micro-batch's kBackwardInput
  } kind;
  int micro_batch = 0, chunk = 0;
  friend bool operator==(const Action&, const Action&) = default;
  std::string ToString() const;  // "F3", "B3", "I3", "W3"; with a chunk above 0 "F3.1"
};

enum class Schedule { kGPipe, kOneFOneB, kInterleaved, kZeroBubbleH1 };

struct PipelineShape {
  int stages = 1, micro_batches = 1;
  int chunks = 1;  // of the model on each stage; more than 1 is interleaved
  int parts() const { return stages * chunks; }
};

// Checks that the schedule supports the shape. The error says why not and what would be accepted.
absl::Status CheckSchedule(Schedule schedule, const PipelineShape& shape);
// The actions of one stage. CheckSchedule must accept the schedule and shape.
std::vector<Action> ActionsOf(Schedule schedule, const PipelineShape& shape, int stage);

// What an action receives before it runs, or sends after it has run: the activation of one micro-batch from one part of
// the model to the next, or its gradient in the other direction.
struct Message {
  bool forward;  // true: an activation; false: a gradient
  int micro_batch;
  int part;      // the sending part
  int from, to;  // stages
  friend bool operator==(const Message&, const Message&) = default;
};
// None at the ends of the model and for weights' gradients. With one stage, messages go from it to itself.
std::optional<Message> ReceivedBy(const Action& action, const PipelineShape& shape, int stage);
std::optional<Message> SentBy(const Action& action, const PipelineShape& shape, int stage);

// Plays the actions of all stages against each other, without time, as executor.h runs them without overlap: a stage
// starts to receive a message when it reaches the action that needs it, and sends a message only after the previous one
// in the same direction has been received. Checks that every part of every micro-batch runs forward once and backward
// once, in the right order on the right stage; that no stage waits for a message that never comes; and that the
// messages from one stage to another are received in the order in which they are sent. Returns the first error.
absl::Status Validate(const std::vector<std::vector<Action>>& stages, const PipelineShape& shape);

// The largest number of micro-batches (times chunks) of one stage that have run forward and whose backward pass has not
// begun (MostInFlight), or has not ended, including the weights' gradients (MostUnfinished).
int MostInFlight(const std::vector<Action>& actions);
int MostUnfinished(const std::vector<Action>& actions);

}  // namespace twofold::pipeline
