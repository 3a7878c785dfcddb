#include "backends/in_memory/generations.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"

namespace twofold::in_memory {
namespace {

constexpr std::chrono::milliseconds kLookForMembers(5);

// Why the members of the run may not go on; throws it as `member`'s failure.
void ThrowUnlessSurvivable(const host::RunState& run, int member) {
  const std::optional<host::RunState::Failure> failure = run.failure();
  if (failure && !IsSurvivable(failure->kind)) run.ThrowIfEnding(member, "forming a new generation");
}

}  // namespace

int Generations::Shared::RankOf(int member) const {
  const auto found = std::find(generation.members.begin(), generation.members.end(), member);
  return found == generation.members.end() ? -1 : static_cast<int>(found - generation.members.begin());
}

Generations::Generations(host::RunState& first, int ranks, bool elastic, host::MembershipEvents events,
                         std::shared_ptr<Links> links, std::function<void(int)> start)
    : events_(std::move(events)), links_(std::move(links)), start_(std::move(start)), first_(first), elastic_(elastic) {
  auto shared = std::make_shared<Shared>();
  shared->generation.members.resize(static_cast<size_t>(ranks));
  std::iota(shared->generation.members.begin(), shared->generation.members.end(), 0);
  shared->run = &first;
  shared->everyone = std::make_shared<GroupState>(first, "world", shared->generation.members, links_);
  present_ = shared;
  for (const int m : shared->generation.members) latest_[m] = shared;
}

std::shared_ptr<const Generations::Shared> Generations::Of(int member) const {
  std::lock_guard lock(mutex_);
  return latest_.at(member);
}

std::shared_ptr<const Generations::Shared> Generations::Present() const {
  std::lock_guard lock(mutex_);
  return present_;
}

int Generations::members() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(latest_.size());
}

bool Generations::AllHaveAsked() const {
  const std::vector<int>& members = present_->generation.members;
  return std::all_of(members.begin(), members.end(), [this](int m) { return asked_.contains(m) || left_.contains(m); });
}

std::shared_ptr<const Generations::Shared> Generations::Reform(int member, const ReformOptions& options) {
  Lock lock(mutex_);
  const std::shared_ptr<const Shared> old = latest_.at(member);
  if (old != present_) ThrowLeftOut(member);
  ThrowIfDue(member, begun_);  // members that are lost before the same step are lost together
  ThrowUnlessSurvivable(*old->run, member);
  if (asked_.empty()) deadline_ = old->run->Now() + options.timeout_s;
  asked_.insert(member);
  least_members_ = options.min_members;
  while (present_ == old) {
    ThrowUnlessSurvivable(*old->run, member);  // one may have said so since
    const bool late = old->run->Now() >= deadline_;
    if (!AllHaveAsked() && !late) {
      changed_.wait_for(lock, kLookForMembers);
      if (host::InterruptScope::Raised()) old->run->ThrowIfEnding(member, "forming a new generation");
      continue;
    }
    if (static_cast<int>(asked_.size()) + Arriving() < least_members_) {
      const std::optional<host::RunState::Failure> failure = old->run->failure();
      const std::string why = StrCat("rank ", member, ": only ", asked_.size(), " of ", old->generation.members.size(),
                                     " ranks are left, and ", least_members_, " are needed",
                                     failure ? StrCat("; before that: ", failure->message) : "");
      old->run->Fail(member, RankFailure::Kind::kPeerLost, why);
      changed_.notify_all();
      throw PeerLost(member, why);
    }
    Commit();
  }
  if (latest_.at(member) != present_) ThrowLeftOut(member);
  return present_;
}

void Generations::ThrowLeftOut(int member) const {
  throw PeerLost(member, StrCat("rank ", member, ": generation ", present_->generation.number,
                                " was formed without it, because it did not come within the time-out"));
}

// Newcomers that wait.
int Generations::Arriving() const { return events_.Arrived(present_->run->Now(), reached_) - newcomers_; }

// Called by the last of those who come, with the lock held.
void Generations::Commit() {
  const Shared& old = *present_;
  auto next = std::make_shared<Shared>();
  next->generation.number = old.generation.number + 1;
  next->generation.members.assign(asked_.begin(), asked_.end());
  const int came = Arriving(), first = static_cast<int>(latest_.size());
  for (int i = 0; i < came; ++i) next->generation.members.push_back(first + i);
  newcomers_ += came;
  runs_.push_back(std::make_unique<host::RunState>(*old.run, std::max(events_.most_members(), first + came)));
  next->run = runs_.back().get();
  next->everyone = std::make_shared<GroupState>(*next->run, "world", next->generation.members, links_);
  std::vector<int> lost;
  std::set_difference(old.generation.members.begin(), old.generation.members.end(), asked_.begin(), asked_.end(),
                      std::back_inserter(lost));
  const std::optional<host::RunState::Failure> failure = old.run->failure();
  std::string note = StrCat("generation ", next->generation.number, ": ", next->generation.members.size(), " ranks");
  if (!lost.empty()) {
    StrAppend(&note, "; lost: ", RankList(lost));
    old.run->Fail(lost[0], RankFailure::Kind::kPeerLost,
                  StrCat("rank ", lost[0], ": did not come to the next generation"));
  }
  if (failure) StrAppend(&note, " (", failure->message, ")");
  if (came > 0) StrAppend(&note, "; ", came, " new");
  notes_.push_back(std::move(note));
  asked_.clear();
  exchanged_.clear();
  for (const int m : next->generation.members) latest_[m] = next;
  present_ = next;
  for (int i = 0; i < came; ++i) start_(first + i);
  changed_.notify_all();
}

bool Generations::EndsAfter(int member, int64_t step) {
  Lock lock(mutex_);
  const Shared& own = *latest_.at(member);
  const auto [decided, first] = ends_after_.try_emplace({own.generation.number, step}, false);
  if (first) {
    reached_.try_emplace(step, own.run->Now());
    decided->second = Arriving() > 0;
  }
  return decided->second;
}

std::vector<std::string> Generations::Exchange(int member, std::string bytes) {
  Lock lock(mutex_);
  const std::shared_ptr<const Shared> own = latest_.at(member);
  const std::pair key(own->generation.number, ++exchanged_[member]);
  const std::vector<int>& members = own->generation.members;
  exchanges_[key].bytes[member] = std::move(bytes);
  changed_.notify_all();
  const double deadline = own->run->Now() + own->run->timeout_s();
  while (exchanges_.at(key).bytes.size() < members.size()) {
    if (own->run->ending()) own->run->ThrowIfEnding(member, "an exchange of descriptions");
    const auto absent = std::find_if(members.begin(), members.end(),
                                     [&](int m) { return left_.contains(m) && !exchanges_.at(key).bytes.contains(m); });
    const bool late = own->run->Now() > deadline;
    if (absent != members.end() || late) {
      const std::string why = absent != members.end()
                                  ? StrCat("rank ", member, ": lost rank ", *absent, " in an exchange of descriptions")
                                  : StrCat("rank ", member, ": an exchange of descriptions has waited ",
                                           own->run->timeout_s(), " s (fabric.timeout_s)");
      own->run->Fail(member, late ? RankFailure::Kind::kTimedOut : RankFailure::Kind::kPeerLost, why);
      throw PeerLost(member, why);
    }
    changed_.wait_for(lock, kLookForMembers);
  }
  Exchanged& exchanged = exchanges_.at(key);
  std::vector<std::string> all;
  for (const int m : members) all.push_back(exchanged.bytes.at(m));
  if (++exchanged.taken == members.size()) exchanges_.erase(key);
  return all;
}

void Generations::BeginStep(int member, int64_t steps) {
  {
    std::lock_guard lock(mutex_);
    begun_ = std::max(begun_, steps);
  }
  ThrowIfDue(member, steps);
}

void Generations::ThrowIfLost(int member) const { ThrowIfDue(member, -1); }

void Generations::ThrowIfDue(int member, int64_t steps) const {
  const host::MembershipEvents::Loss loss = events_.LossOf(member);
  if (steps < loss.steps && first_.Now() < loss.at_s) return;
  throw RankFailure(RankFailure::Kind::kOther, member, host::LostByEvent(member));
}

void Generations::Leave(int member, bool fine) {
  std::lock_guard lock(mutex_);
  left_.insert(member);
  fine_ = fine_ || fine;
  changed_.notify_all();
}

absl::Status Generations::status() const {
  std::lock_guard lock(mutex_);
  const std::optional<host::RunState::Failure> failure = present_->run->failure();
  const bool survived = elastic_ && fine_ && (!failure || IsSurvivable(failure->kind));
  return survived ? absl::OkStatus() : present_->run->status();
}

std::vector<std::string> Generations::Notes() const {
  std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace twofold::in_memory
