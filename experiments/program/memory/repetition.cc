#include "experiments/program/memory/repetition.h"

#include <algorithm>
#include <numeric>

namespace twofold {

Repetition::Repetition(const spec::Train& train) : steps_(train.steps()) {
  if (train.has_validation()) every_.push_back(train.validation().every_steps());
  if (train.checkpoint().has_every_steps()) every_.push_back(train.checkpoint().every_steps());
  for (int64_t every : every_) cycle_ = std::lcm(cycle_, every);  // both below 2^32
  if (every_.empty()) cycle_ = steps_ + 1;
}

int64_t Repetition::EndOfStretch(int64_t step) const {
  int64_t end = steps_ - 1;
  for (int64_t every : every_) end = std::min(end, (step / every + 1) * every - 1);
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
