#include "backends/nccl/offers.h"

#include <algorithm>
#include <chrono>

namespace twofold::nccl {

constexpr std::chrono::milliseconds kLookAtRun(20);  // interval of checks whether the run still goes on

void Offers::Come(uint64_t group, int to, Tag tag, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  const Offer offer{rank_, tag, sequence};
  own_[{group, to}].push_back(offer);
  if (listeners_.contains({group, to})) Tell(group, to, offer);
}

void Offers::Gone(uint64_t group, int to, uint64_t sequence) {
  std::lock_guard lock(mutex_);
  std::erase_if(own_[{group, to}], [&](const Offer& o) { return o.sequence == sequence; });
}

void Offers::Tell(uint64_t group, int to, const Offer& offer) {
  control::Relayed message;
  message.set_from(rank_);
  message.set_to(to);
  message.set_group(group);
  message.mutable_offer()->set_tag(offer.tag);
  message.mutable_offer()->set_sequence(offer.sequence);
  control_.Relay(std::move(message));
}

void Offers::Listen(const host::GroupIdentity& group) {
  if (!listens_.insert(group.id).second) return;
  for (const int other : group.ranks) {
    if (other == rank_) continue;
    control::Relayed message;
    message.set_from(rank_);
    message.set_to(other);
    message.set_group(group.id);
    message.set_listens(true);
    control_.Relay(std::move(message));
  }
}

Offer Offers::Await(const host::GroupIdentity& group, const host::RunState& run, const host::Call& doing,
                    absl::FunctionRef<Verdict(const Offer&)> wanted) {
  std::unique_lock lock(mutex_);
  Listen(group);
  while (true) {
    std::vector<Offer>& heard = heard_[group.id];
    for (auto o = heard.begin(); o != heard.end();) {
      const Offer offer = *o;
      const bool of_group = std::find(group.ranks.begin(), group.ranks.end(), offer.from) != group.ranks.end();
      const Verdict verdict = of_group ? wanted(offer) : kOld;
      if (verdict == kKeep) {
        ++o;
        continue;
      }
      o = heard.erase(o);
      if (verdict == kTake) return offer;
    }
    if (run.ending()) run.ThrowIfEnding(rank_, doing.ToString());
    changed_.wait_for(lock, kLookAtRun);
  }
}

void Offers::Hear(const control::Relayed& message) {
  std::lock_guard lock(mutex_);
  if (message.has_offer()) {
    heard_[message.group()].push_back({message.from(), message.offer().tag(), message.offer().sequence()});
    changed_.notify_all();
  } else if (message.listens()) {
    const std::pair key(message.group(), message.from());
    listeners_.insert(key);
    for (const Offer& offer : own_[key]) Tell(message.group(), message.from(), offer);
  }
}

}  // namespace twofold::nccl
