#include "backends/control/generations.h"

#include <algorithm>
#include <numeric>

#include "core/base/duration.h"
#include "core/base/status.h"

namespace twofold::control {

void Generations::Start(int world_size) {
  number_ = 1;
  members_.resize(static_cast<size_t>(world_size));
  std::iota(members_.begin(), members_.end(), 0);
  asked_.clear();
  out_.clear();
  late_.clear();
  deadline_.reset();
  least_ = 1;
}

absl::Status Generations::Ask(int member, const Reform& reform, Time now) {
  if (!Has(member) || reform.generation() != number_) {
    return FailedPrecondition("member ", member, " asked for the generation after ", Reported(reform.generation()),
                              ", but it is not a member of that one; the run is in generation ", Reported(number_));
  }
  if (out_.contains(member)) {
    return FailedPrecondition("member ", member, " asked for another generation after it had finished or left");
  }
  asked_.insert(member);
  least_ = std::max(least_, reform.min_members());
  const Time deadline = now + DurationOf(reform.patience_s());
  if (!deadline_ || deadline < *deadline_) {
    deadline_ = deadline;
    patience_s_ = reform.patience_s();
  }
  return absl::OkStatus();
}

void Generations::Wait(int newcomer) { newcomers_.push_back(newcomer); }

void Generations::Remove(int member) {
  std::erase(newcomers_, member);
  asked_.erase(member);
  if (Has(member)) out_.insert(member);
}

Generations::Step Generations::Advance(Time now) {
  if (!deadline_) return Step::kWait;
  late_.clear();
  for (const int member : members_) {
    if (!asked_.contains(member) && !out_.contains(member)) late_.push_back(member);
  }
  const bool enough = asked_.size() + newcomers_.size() >= static_cast<size_t>(least_);
  const bool over = now >= *deadline_;
  if (!over && (!late_.empty() || !enough)) return Step::kWait;
  if (!enough || asked_.empty()) return over || late_.empty() ? Step::kTooFew : Step::kWait;
  Commit();
  return Step::kCommitted;
}

void Generations::Commit() {
  ++number_;
  members_.assign(asked_.begin(), asked_.end());
  members_.insert(members_.end(), newcomers_.begin(), newcomers_.end());
  newcomers_.clear();
  asked_.clear();
  out_.clear();
  deadline_.reset();
  least_ = 1;
}

}  // namespace twofold::control
