#include "experiments/memory/repetition.h"

#include <algorithm>
#include <numeric>

namespace twofold {

Repetition::Repetition(const spec::Train& train) : steps_(train.steps()) {
  if (train.has_validation()) every_.push_back(train.validation().every_steps());
  if (train.checkpoint().has_every_steps()) every_.push_back(train.checkpoint().every_steps());
  for (int64_t every : every_) cycle_ = std::lcm(cycle_, every);  // both below 2^32
  if (every_.empty()) cycle_ = steps_ + 1;
}

bool Repetition::Ends(int64_t step) const { return EndOfStretch(step) == step; }

int64_t Repetition::EndOfStretch(int64_t step) const {
  int64_t end = steps_ - 1;
  for (int64_t every : every_) end = std::min(end, (step / every + 1) * every - 1);
  return end;
}

int64_t Repetition::Next(int64_t step, uint64_t found) {
  if (found_) leaves_[*found_] = found;
  if (step % cycle_ == 0) {
    if (at_cycle_ == found) step += (steps_ - 1 - step) / cycle_ * cycle_;  // to the start of the last cycle
    at_cycle_ = found;
  }
  const auto left = leaves_.find(found);
  if (left != leaves_.end() && left->second == found) step = EndOfStretch(step);
  found_ = Ends(step) ? std::nullopt : std::optional<uint64_t>(found);
  ++done_;
  return step;
}

}  // namespace twofold
