#include "backends/host/queued_group.h"

#include <exception>
#include <utility>

#include "core/base/strings.h"

namespace twofold::host {

QueuedGroup::QueuedGroup(std::string name, int rank, std::vector<int> ranks, const std::string& label,
                         std::shared_ptr<const GroupIdentity> identity, std::shared_ptr<RankState> owner,
                         CommunicationStats& stats, BlockedCalls blocked_calls)
    : ProcessGroup(std::move(name), rank, std::move(ranks), owner->device, stats),
      owner_(std::move(owner)),
      identity_(std::move(identity)),
      label_(std::make_shared<const std::string>(label)),
      blocked_calls_(blocked_calls),
      exceptions_(std::uncaught_exceptions()) {}

void QueuedGroup::Drain() {
  if (!queue_->Close()) owner_->run.ThrowIfEnding(owner_->rank, StrCat("unfinished work of group ", *label_));
}

void QueuedGroup::ThrowIfEnding(const Call& call) const {
  if (owner_->run.ending()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
}

bool QueuedGroup::Close() {
  if (std::uncaught_exceptions() > exceptions_ && !queue_->Idle()) {
    owner_->run.Claim(owner_->rank,
                      StrCat("rank ", owner_->rank, ": an exception left unfinished work in group ", *label_));
    if (blocked_calls_ == BlockedCalls::kMayHang) Abandon(*owner_);
  }
  if (queue_->Close()) return true;
  (void)queue_.release();
  return false;
}

}  // namespace twofold::host
