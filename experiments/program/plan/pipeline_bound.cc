#include "experiments/program/plan/pipeline_bound.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"

namespace twofold::plan {
namespace {

using pipeline::Action;

// `later`: not the step's first action of its kind and chunk.
double SecondsOf(const Action& action, bool later, const std::vector<ChunkTimes>& chunks) {
  const ChunkTimes& chunk = chunks[static_cast<size_t>(action.chunk)];
  switch (action.kind) {
    case Action::kForward: return chunk.forward;
    case Action::kBackward: return chunk.backward[later];
    case Action::kBackwardInput: return chunk.input;
    case Action::kBackwardWeights: return chunk.weights[later];
  }
  return 0;
}

constexpr double kNotYet = -1;

// One stage's way through its actions.
struct Walk {
  std::vector<Action> actions;
  size_t next = 0;
  double time = 0, last_begins = 0;
  std::vector<bool> seen;  // by chunk and kind
  // Whether an action of this kind and chunk has come before.
  bool IsLater(const Action& action) {
    const auto at = static_cast<size_t>(action.chunk * kKinds + static_cast<int>(action.kind));
    if (seen.size() <= at) seen.resize(at + 1);
    const bool later = seen[at];
    seen[at] = true;
    return later;
  }
  static constexpr int kKinds = Action::kBackwardWeights + 1;
};

}  // namespace

double LongestPath(pipeline::Schedule schedule, const pipeline::PipelineShape& shape,
                   const std::vector<StageTimes>& stages, double around) {
  TWOFOLD_CHECK_EQ(stages.size(), static_cast<size_t>(shape.stages));
  std::vector<Walk> walks(stages.size());
  for (int s = 0; s < shape.stages; ++s) walks[static_cast<size_t>(s)].actions = ActionsOf(schedule, shape, s);
  // When a message has come: by direction, micro-batch and sending part.
  const auto index = [&](const pipeline::Message& m) {
    return static_cast<size_t>((m.micro_batch * shape.parts() + m.part) * 2 + (m.forward ? 1 : 0));
  };
  std::vector<double> come(static_cast<size_t>(2 * shape.micro_batches * shape.parts()), kNotYet);
  bool first = true;
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < shape.stages; ++s) {
      Walk& walk = walks[static_cast<size_t>(s)];
      for (; walk.next < walk.actions.size(); ++walk.next) {
        const Action& action = walk.actions[walk.next];
        const StageTimes& stage = stages[static_cast<size_t>(s)];
        double message = 0;
        if (const auto in = ReceivedBy(action, shape, s)) {
          message = come[index(*in)];
          if (message == kNotYet) break;
        }
        const bool later = walk.IsLater(action);
        const double after_message = SecondsOf(action, later, stage.chunks);
        const double whole = stage.whole.empty() ? after_message : SecondsOf(action, later, stage.whole);
        walk.last_begins = std::max(walk.time, message - (whole - after_message));
        walk.time = first ? walk.time + around : std::max(walk.time + whole, message + after_message);
        first = false;  // stage 0 is the first that can begin
        if (const auto out = SentBy(action, shape, s)) {
          const int lower = out->forward ? out->from : out->to;  // the pair is named after the stage before the other
          come[index(*out)] = walk.time + stages[static_cast<size_t>(lower)].to_next;
        }
        moved = true;
      }
    }
  }
  for (const Walk& walk : walks) TWOFOLD_CHECK_EQ(walk.next, walk.actions.size());
  return walks[0].last_begins;
}

double QuickPath(pipeline::Schedule schedule, const pipeline::PipelineShape& shape,
                 const std::vector<StageTimes>& stages) {
  const double m = shape.micro_batches;
  const bool split = schedule == pipeline::Schedule::kZeroBubbleH1;
  double longest = 0, way = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    double work = 0;
    for (const ChunkTimes& c : stages[s].chunks) {
      work += m * c.forward;
      if (split)
        work += m * c.input + c.weights[0] + (m - 1) * c.weights[1] -
                (s > 0 ? std::min(static_cast<double>(s + 1), m) * std::max(c.weights[0], c.weights[1]) : 0);
      else
        work += c.backward[0] + (m - 1) * c.backward[1];
    }
    longest = std::max(longest, way + work);
    const ChunkTimes& first = stages[s].chunks[0];
    way += first.forward + (split ? first.input : std::min(first.backward[0], first.backward[1]));
    if (split && s == 0) way += std::min(first.weights[0], first.weights[1]);  // its last action, where a step begins
  }
  return longest;
}

}  // namespace twofold::plan
