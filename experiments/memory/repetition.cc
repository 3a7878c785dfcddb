#include "experiments/memory/repetition.h"

#include <algorithm>

namespace twofold {

Repetition::Repetition(const spec::Train& train)
    : steps_(train.steps()), every_(train.has_validation() ? train.validation().every_steps() : 0) {}

bool Repetition::Ends(int64_t step) const { return step + 1 >= steps_ || (every_ > 0 && (step + 1) % every_ == 0); }

int64_t Repetition::EndOfStretch(int64_t step) const {
  const int64_t last = steps_ - 1;
  return every_ > 0 ? std::min(last, (step / every_ + 1) * every_ - 1) : last;
}

int64_t Repetition::Next(int64_t step, const CachingAllocator& allocator) {
  const uint64_t now = allocator.Fingerprint();
  if (found_) leaves_[*found_] = now;
  if (every_ > 0 && step % every_ == 0) {
    if (cycle_ == now) step += (steps_ - 1 - step) / every_ * every_;  // to the start of the last cycle
    cycle_ = now;
  }
  const auto left = leaves_.find(now);
  if (left != leaves_.end() && left->second == now) step = EndOfStretch(step);
  found_ = Ends(step) ? std::nullopt : std::optional<uint64_t>(now);
  ++done_;
  return step;
}

}  // namespace twofold
