#include "backends/simulated/generations.h"

#include <algorithm>
#include <iterator>

#include "core/base/errors.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"

namespace twofold {

SimulatedGenerations::SimulatedGenerations(SimulatedWorld& world, std::shared_ptr<SimulatedGroup> everyone,
                                           host::MembershipEvents events, const spec::MembershipCosts& costs,
                                           std::function<void(int)> start)
    : world_(world), events_(std::move(events)), costs_(costs), start_(std::move(start)) {
  auto shared = std::make_shared<Shared>();
  shared->generation.members = everyone->ranks();
  shared->everyone = std::move(everyone);
  present_ = shared;
  for (const int m : shared->generation.members) latest_[m] = shared;
}

bool SimulatedGenerations::AllHaveAsked() const {
  const std::vector<int>& members = present_->generation.members;
  return std::all_of(members.begin(), members.end(), [this](int m) { return asked_.contains(m) || left_.contains(m); });
}

// Those that have asked have waited for the others long enough.
void SimulatedGenerations::LeaveBehind() {
  for (const int m : present_->generation.members) {
    if (!asked_.contains(m)) left_.insert(m);
  }
  asked_at_ = std::max(asked_at_, world_.engine.now());
  std::exchange(commits_, std::make_shared<sim::TimePoint>())->Resolve(asked_at_);
}

std::shared_ptr<const SimulatedGenerations::Shared> SimulatedGenerations::Reform(SimulatedRank& rank,
                                                                                 const ReformOptions& options) {
  const int member = rank.rank();
  const std::shared_ptr<const Shared> old = present_;
  if (HasGoneOnWithout(member) || left_.contains(member)) {
    throw PeerLost(member, StrCat("rank ", member, ": came too late for generation ", Of(member)->generation.number + 1,
                                  ", which the others form without it"));
  }
  world_.engine.ThrowUnlessSurvivable(member);
  ThrowIfDue(rank, begun_);  // members that are lost before the same step are lost together
  asked_.insert(member);
  asked_at_ = std::max({asked_at_, rank.host().time(), world_.engine.now()});
  if (commits_ == nullptr) {
    commits_ = std::make_shared<sim::TimePoint>();
    if (may_hang_)
      world_.engine.Alarm(asked_at_ + options.timeout_s, [this, old] {
        if (present_ == old && !AllHaveAsked()) LeaveBehind();
      });
  }
  while (present_ == old && !AllHaveAsked()) {
    const sim::TimePointPtr commits = commits_;
    world_.engine.Pause(member, commits, [] { return std::string("the next generation of members"); });
    world_.engine.ThrowUnlessSurvivable(member);
  }
  if (present_ == old) {
    if (static_cast<int>(asked_.size()) + Arriving(asked_at_) < options.min_members) {
      over_ = StrCat("rank ", member, ": only ", asked_.size(), " of ", old->generation.members.size(),
                     " ranks are left, and ", options.min_members, " are needed");
      throw PeerLost(member, over_);
    }
    Commit(asked_at_ + costs_.reform_s());
  }
  rank.GoesOn(present_->begins);
  return present_;
}

// Called by the last of those who come.
void SimulatedGenerations::Commit(double time) {
  const Shared& old = *present_;
  auto next = std::make_shared<Shared>();
  next->generation.number = old.generation.number + 1;
  next->generation.members.assign(asked_.begin(), asked_.end());
  next->begins = time;
  const int came = Arriving(time), first = members();
  for (int i = 0; i < came; ++i) next->generation.members.push_back(first + i);
  newcomers_ += came;
  std::vector<int> lost, finished;
  std::set_difference(old.generation.members.begin(), old.generation.members.end(), asked_.begin(), asked_.end(),
                      std::back_inserter(lost));
  const auto ended_well = [this](int m) { return finished_.contains(m); };
  std::copy_if(lost.begin(), lost.end(), std::back_inserter(finished), ended_well);
  std::erase_if(lost, ended_well);
  std::string note = StrCat("generation ", next->generation.number, ": ", next->generation.members.size(), " ranks");
  if (!lost.empty()) StrAppend(&note, "; lost: ", RankList(lost), " (", world_.engine.failure_text(), ")");
  if (!finished.empty()) StrAppend(&note, "; finished: ", RankList(finished));
  if (came > 0) StrAppend(&note, "; ", came, " new");
  notes_.push_back(std::move(note));
  world_.engine.GoOn();
  ++world_.generation;
  next->everyone =
      std::make_shared<SimulatedGroup>(world_, "world", std::vector<std::vector<int>>{next->generation.members});
  asked_.clear(), exchanged_.clear();
  asked_at_ = 0;
  for (const int m : next->generation.members) latest_[m] = next;
  present_ = next;
  const sim::TimePointPtr commits = std::exchange(commits_, nullptr);
  for (int i = 0; i < came; ++i) start_(first + i);
  commits->Resolve(time);
}

bool SimulatedGenerations::EndsAfter(SimulatedRank& rank, int64_t step) {
  const auto [decided, first] = ends_after_.try_emplace({Of(rank.rank())->generation.number, step}, false);
  if (first) {
    reached_.try_emplace(step, rank.host().time());
    decided->second = Arriving(rank.host().time()) > 0;
  }
  return decided->second;
}

std::vector<std::string> SimulatedGenerations::Exchange(SimulatedRank& rank, std::string bytes) {
  const int member = rank.rank();
  const std::shared_ptr<const Shared> own = Of(member);
  const auto doing = [] { return std::string("an exchange of descriptions"); };
  world_.engine.ThrowIfFailed(member, doing);
  std::shared_ptr<Exchanged>& entry = exchanges_[{own->generation.number, ++exchanged_[member]}];
  if (entry == nullptr) entry = std::make_shared<Exchanged>();
  const std::shared_ptr<Exchanged> exchanged = entry;
  exchanged->bytes[member] = std::move(bytes);
  exchanged->latest = std::max({exchanged->latest, rank.host().time(), world_.engine.now()});
  if (exchanged->bytes.size() == own->generation.members.size()) exchanged->all->Resolve(exchanged->latest);
  rank.HostWait(exchanged->all, doing);
  std::vector<std::string> all;
  for (const int m : own->generation.members) all.push_back(exchanged->bytes.at(m));
  return all;
}

void SimulatedGenerations::BeginStep(SimulatedRank& rank, int64_t steps) {
  begun_ = std::max(begun_, steps);
  ThrowIfDue(rank, steps);
}

void SimulatedGenerations::ThrowIfLost(SimulatedRank& rank) const { ThrowIfDue(rank, -1); }

void SimulatedGenerations::ThrowIfDue(SimulatedRank& rank, int64_t steps) const {
  const host::MembershipEvents::Loss loss = events_.LossOf(rank.rank());
  if (steps < loss.steps && rank.host().time() < loss.at_s) return;
  throw RankFailure(RankFailure::Kind::kOther, rank.rank(), host::LostByEvent(rank.rank()));
}

void SimulatedGenerations::Leave(int member, double time, bool fine) {
  if (HasGoneOnWithout(member)) return;
  left_.insert(member);
  if (fine) finished_.insert(member);
  fine_ = fine_ || fine;
  if (!fine) asked_at_ = std::max(asked_at_, time + costs_.detect_s());
}

}  // namespace twofold
