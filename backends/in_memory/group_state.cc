// What all of a group's ways to meet have in common: waiting, and how a group breaks. And splits.
#include "backends/in_memory/group_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/in_memory/group_waiting.h"
#include "core/base/strings.h"

namespace twofold::in_memory {

GroupState::GroupState(RunState& run, std::string name, std::vector<int> world_ranks, std::shared_ptr<Links> links)
    : run_(run),
      name_(std::move(name)),
      ranks_(std::move(world_ranks)),
      label_(host::GroupLabel(name_, ranks_)),
      links_(std::move(links)),
      free_(ranks_.size()),
      rendezvous_(size()),
      slots_(ranks_.size()) {}

// ---- Waiting ----

void GroupState::Signal(int rank) {
  slot(rank).signals.fetch_add(1, std::memory_order_release);
  slot(rank).changed.notify_one();
}

void GroupState::SignalAll() {
  for (int r = 0; r < size(); ++r) Signal(r);
  met_.notify_all();
}

// Releases the lock until this rank is signalled, or for some ten microseconds.
void GroupState::Spin(Lock& lock, Slot& slot) {
  const uint32_t before = slot.signals.load(std::memory_order_relaxed);
  lock.unlock();
  SpinUntil([&] { return slot.signals.load(std::memory_order_acquire) != before; });
  lock.lock();
}

void GroupState::ThrowIfHopeless(int rank, const Call& call, const Missing& missing, double started) const {
  const int self = world_rank(rank);
  if (run_.ending()) run_.ThrowIfEnding(self, call.ToString());
  auto left = [this](int r) { return run_.HasLeft(world_rank(r)); };
  const auto lost = std::find_if(missing.ranks.begin(), missing.ranks.end(), left);
  if (missing.any ? std::all_of(missing.ranks.begin(), missing.ranks.end(), left) : lost != missing.ranks.end()) {
    throw PeerLost(self, StrCat("rank ", self, ": lost rank ", world_rank(*lost), " in ", call.ToString(),
                                ": its function has returned"));
  }
  if (run_.Now() - started < run_.timeout_s()) return;
  std::string waited_for;
  for (int r : missing.ranks) StrAppend(&waited_for, waited_for.empty() ? "" : "; ", run_.Doing(world_rank(r)));
  throw TimedOut(self, StrCat("rank ", self, ": ", call.ToString(), " has waited ", run_.timeout_s(),
                              " s (fabric.timeout_s) for ", missing.any ? "any of " : "", waited_for));
}

void GroupState::Break(RankFailure::Kind kind, int rank, std::string message) {
  if (broken_) return;
  broken_ = true;
  broken_kind_ = kind;
  broken_message_ = message;
  run_.Fail(world_rank(rank), kind, std::move(message));
  SignalAll();
}

void GroupState::ThrowIfBroken(int rank) const {
  if (!broken_) return;
  const int self = world_rank(rank);
  if (broken_kind_ == RankFailure::Kind::kCollectiveMismatch) throw CollectiveMismatch(self, broken_message_);
  run_.ThrowIfEnding(self, StrCat("group ", *label_));
  throw PeerLost(self, StrCat("rank ", self, ": group ", *label_, " is broken: ", broken_message_));
}

void GroupState::Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b,
                          const std::string& where) {
  const std::string message = host::MismatchText(*label_, where, world_rank(rank_a), a, world_rank(rank_b), b);
  Break(RankFailure::Kind::kCollectiveMismatch, rank_b, message);
  throw CollectiveMismatch(world_rank(rank_b), message);
}

// ---- Splits ----

GroupState::Membership GroupState::Split(int rank, const Call& call, int color, int key, std::string name) {
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  Slot& own = slot(rank);
  own.request = {color, key, std::move(name)};
  const uint64_t complete = ++own.splits * static_cast<uint64_t>(size());
  if (++split_requests_ == complete) {
    MakeGroups();
    for (Slot& s : slots_) s.split_done.notify_one();
  } else {
    try {
      Spin(lock, own);
      Await(
          lock, own.split_done, rank, call, [&] { return split_requests_ >= complete; },
          [&] {
            Missing missing;
            for (int r = 0; r < size(); ++r) {
              if (slot(r).splits < own.splits) missing.ranks.push_back(r);
            }
            return missing;
          });
    } catch (const RankFailure& f) {
      Break(f.kind(), rank, f.what());
      throw;
    }
  }
  return std::exchange(own.membership, {});
}

void GroupState::MakeGroups() {
  std::map<int, std::vector<int>> members;  // by color
  for (int r = 0; r < size(); ++r) {
    if (slot(r).request.color >= 0) members[slot(r).request.color].push_back(r);
  }
  for (auto& [color, ranks] : members) {
    std::stable_sort(ranks.begin(), ranks.end(),
                     [this](int a, int b) { return slot(a).request.key < slot(b).request.key; });
    std::vector<int> world_ranks;
    for (int r : ranks) world_ranks.push_back(world_rank(r));
    auto group = std::make_shared<GroupState>(run_, slot(ranks[0]).request.name, world_ranks, links_);
    for (size_t i = 0; i < ranks.size(); ++i) slot(ranks[i]).membership = {group, static_cast<int>(i)};
  }
}

}  // namespace twofold::in_memory
