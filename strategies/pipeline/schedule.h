// What each stage of a pipeline does, in which order: data, so that a test can check it and a picture can draw it.
//
// With p stages, m micro-batches and v chunks of the model on each stage, chunk c of stage s is part c * p + s of the model's
// p * v parts: micro-batches pass the stages in turn, v times. What a part sends and receives follows: a forward pass receives
// its activation from the part before it and sends its output to the part after it, a backward pass the other way about.
//   GPipe            all forward passes, then all backward passes (Huang et al. 2019, section 2.3)
//   1F1B             as few forward passes ahead as fill the pipeline (Narayanan et al. 2021, section 2.2.1; PipeDream-Flush)
//   interleaved      1F1B over p * v parts; p divides m (Narayanan et al. 2021, section 2.2.2); of one chunk it is 1F1B
//   zero bubble H1   1F1B whose backward passes are cut into the input's and the weights' gradients; stage s puts the latter off
//                    by s micro-batches, and they fill what would be idle at the end (Qi et al. 2024, "Zero Bubble Pipeline
//                    Parallelism", section 2.2)
// In units of one forward pass F and one backward pass B = I + W (input and weights) of all chunks of a stage, the time that a
// stage idles, of m (F + B) in which it works, is
//   GPipe, 1F1B (p - 1)(F + B);  interleaved (p - 1)(F + B) / v;  zero bubble H1 (p - 1)(F + I - W)
// (the last where W <= F, W <= I and m >= p; of fewer micro-batches, with F = I = W, m - 1 weights' gradients are there to fill
// what is idle: (p - 1)(F + I) - (m - 1) W).
// Forward passes whose backward pass has not begun, hence the activations kept, are at most (MostInFlight)
//   GPipe m;  1F1B and zero bubble H1 min(m, p - s);  interleaved min(m v, (v - 1) p + 2 (p - s - 1) + 1)
// and with those whose weights' gradients are still to come, of which a part is kept (MostUnfinished), zero bubble H1 min(m, p).
#pragma once

#include <optional>
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

struct PipelineShape {
  int stages = 1, micro_batches = 1;
  int chunks = 1;  // of the model on each stage; above 1: interleaved
  int parts() const { return stages * chunks; }
};

// Whether there is such a schedule; else why not and what would do.
absl::Status CheckSchedule(Schedule schedule, const PipelineShape& shape);
// The actions of one stage. The schedule must be one (CheckSchedule).
std::vector<Action> ActionsOf(Schedule schedule, const PipelineShape& shape, int stage);

// What an action receives before it runs, or sends when it has: the activation of one micro-batch between a part of the model and
// the next one, or its gradient on the way back.
struct Message {
  bool forward;      // an activation
  int micro_batch;
  int part;          // that sends it
  int from, to;      // stages
  friend bool operator==(const Message&, const Message&) = default;
};
// None at the ends of the model and for weights' gradients. On one stage, messages go from it to itself.
std::optional<Message> ReceivedBy(const Action& action, const PipelineShape& shape, int stage);
std::optional<Message> SentBy(const Action& action, const PipelineShape& shape, int stage);

// Runs the actions of all stages against each other, without time, as executor.h does it without overlap: a stage begins to receive
// what an action needs when it comes to that action, and sends a message when the one that it sent the same way before has been
// taken. Every part of every micro-batch goes forward once and back once in the right order on the right stage, nobody waits for what never comes,
// and messages that go one way between two stages are received in the order in which they are sent. Says what is wrong first.
absl::Status Validate(const std::vector<std::vector<Action>>& stages, const PipelineShape& shape);

// Of the actions of one stage: micro-batches (times chunks) that have gone forward and whose backward pass has not begun, at most;
// and those whose backward pass, weights' gradients included, has not ended.
int MostInFlight(const std::vector<Action>& actions);
int MostUnfinished(const std::vector<Action>& actions);

}  // namespace twofold::pipeline
