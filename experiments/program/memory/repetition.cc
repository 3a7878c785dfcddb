#include "experiments/program/memory/repetition.h"

#include <algorithm>
#include <numeric>

#include "strategies/from_spec.h"

namespace twofold {

Repetition::Repetition(const spec::Train& train) : steps_(train.steps()) {
  if (train.has_validation()) events_.push_back({train.validation().every_steps()});
  if (train.checkpoint().has_every_steps()) events_.push_back({train.checkpoint().every_steps()});
  if (train.has_local_update()) AddOuterSteps(train.local_update());
  for (const Event& event : events_) cycle_ = std::lcm(cycle_, event.every);  // both below 2^32
  if (events_.empty()) cycle_ = steps_ + 1;
}

// Each fragment is sent at a step of its own, goes on halfway, and arrives (strategies/local_update/local_update.h).
void Repetition::AddOuterSteps(const spec::LocalUpdate& local) {
  const int64_t every = EveryStepsOf(local), overlap = local.has_streaming() ? local.streaming().overlap_steps() : 0,
                fragments = local.has_streaming() ? local.streaming().fragments() : 1;
  for (int64_t i = 1; i <= fragments; ++i) {
    for (const int64_t age : {int64_t{0}, (overlap + 1) / 2, overlap})
      events_.push_back({every, (every * i / fragments + age) % every});
  }
}

int64_t Repetition::EndOfStretch(int64_t step) const {
  int64_t end = steps_ - 1;
  for (const auto& [every, at] : events_) end = std::min(end, step + ((at - step - 1) % every + every) % every);
  return end;
}

int64_t Repetition::LeaveOut(int64_t step, int64_t end, uint64_t found, Seen& seen) {
  const auto [earlier, is_new] = seen.try_emplace(found, step);
  if (is_new) return step;
  const int64_t round = step - earlier->second;
  return step + (end - step) / round * round;
}

int64_t Repetition::Next(int64_t step, uint64_t found) {
  if (step % cycle_ == 0) step = LeaveOut(step, steps_ - 1, found, cycles_);
  step = LeaveOut(step, EndOfStretch(step), found, stretch_);
  if (step == EndOfStretch(step)) stretch_.clear();
  if (++done_ > kMost && step + 1 < steps_) step = steps_ - 1, settled_ = false;
  return step;
}

}  // namespace twofold
