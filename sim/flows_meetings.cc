// Meetings: which zones a step would overload, which bundles meet there, and how what is left of them becomes one.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "sim/flow_bundles.h"
#include "sim/flows.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_solution.h"
#include "sim/sharing/known_solutions.h"

namespace twofold::sim {
namespace {

constexpr double kFull = 1 + 1e-9;  // a link with a larger share of its bandwidth in use is overloaded
constexpr size_t kMostJoints = 4096;
constexpr double kMoreClasses =
    1.25;  // times as many classes as are known to be needed are used rather than found anew

}  // namespace

// ---- Zones ----

// The zones that the next step would overload.
std::vector<int> Flows::Overfull(const Active& active) const {
  std::vector<int> full;
  for (const auto& [link_class, more] : active.solution->Get(active.next)->loads) {
    if (more <= 0) continue;
    for (const int z : active.group->zones[static_cast<size_t>(link_class)]) {
      const Zone& zone = zones_[static_cast<size_t>(z)];
      if (zone.load + more > zone.bandwidth * kFull) full.push_back(z);
    }
  }
  return full;
}

bool Flows::Crosses(const Active& active, const std::vector<bool>& zones) const {
  bool crosses = false;
  ForZones(*active.group, active.crossed, [&](size_t z) { crosses = crosses || zones[z]; });
  return crosses;
}

// By zone: whether some of `rests` cross it.
std::vector<bool> Flows::ZonesOf(const std::vector<Rest>& rests) const {
  std::vector<bool> crossed(zones_.size());
  for (const Rest& rest : rests) ForZones(*rest.group, rest.crossed, [&crossed](size_t z) { crossed[z] = true; });
  return crossed;
}

// ---- Merging ----

// Removes an active bundle and its load. Returns what is left by class, and adds the bundles that have just ended to
// `done`. `set` and `owner` are not filled in.
Flows::Rest Flows::TakeOut(Actives::iterator it, std::vector<std::pair<Done, double>>& done) {
  Active& active = it->second;
  const FlowClasses& classes = active.group->classes;
  const double now = now_(), since_begin = now - active.begin;
  std::vector<double> left = active.bundle != nullptr ? active.bundle->bytes : active.bytes, rates(left.size()),
                      since(left.size()), ends(left.size(), -1);
  for (size_t s = 0; s < active.next; ++s) {
    const FlowSolution::Step& step = active.solution->known()[s];
    for (const auto& [class_number, rate] : step.rates) {
      const auto c = static_cast<size_t>(class_number);
      left[c] -= rates[c] * (step.time - since[c]), since[c] = step.time, rates[c] = rate;
      if (rate == 0) left[c] = 0, ends[c] = active.begin + step.time;
    }
  }
  if (active.bundle != nullptr) {  // its first meeting
    auto owner = std::make_shared<Owner>();
    owner->bundle = active.bundle;
    owner->done = std::move(active.done);
    owner->kinds = classes.lots[0].size();
    for (const std::vector<int>& lot : classes.lots[0]) owner->left.push_back(lot.size());
    active.owners = {owner};
    for (size_t c = 0; c < left.size(); ++c) {
      if (ends[c] >= 0) owner->End(classes.lots_of[c], ends[c]);
    }
  }
  std::vector<double> loads(classes.links.size());
  for (size_t c = 0; c < left.size(); ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    if (active.owners[own.set] == nullptr) continue;
    for (size_t l = 0; l < own.links.size() && rates[c] > 0; ++l)
      loads[static_cast<size_t>(own.links[l])] += own.weights[l] * rates[c];
    left[c] -= rates[c] * (since_begin - since[c]);
    const double bytes = classes.sets[own.set]->BytesOf(own.example) * active.owners[own.set]->bundle->scale;
    const double rounding = bytes * kBytesRounding + rates[c] * now * kTimesRounding;
    if (left[c] > rounding) continue;
    left[c] = 0;
    if (rates[c] == 0) continue;  // it had ended before
    Owner& owner = *active.owners[own.set];
    if (owner.End(classes.lots_of[c], now)) done.emplace_back(std::move(owner.done), owner.first);
  }
  for (size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] == 0) continue;
    for (const int z : active.group->zones[l]) {
      Zone& zone = zones_[static_cast<size_t>(z)];
      Account(zone);
      zone.load -= loads[l];
    }
  }
  if (active.next > 0) Release(*active.group, active.crossed);
  return {.group = active.group,
          .crossed = active.crossed,
          .left = std::make_shared<const std::vector<double>>(std::move(left)),
          .owner = nullptr};
}

// The solution for these bytes, perhaps from an earlier meeting.
std::shared_ptr<FlowSolution> Flows::SolutionOf(const GroupPtr& group, const std::vector<double>& left) {
  auto [solution, found] = solved_.Of({group, &group->classes}, left, now_());
  if (!found) ++solutions_;
  return solution;
}

// The next step of bundle `number` would overload zones: merges the bundles that meet there.
void Flows::Meet(uint64_t number, std::vector<int> full) {
  ++meetings_;
  Active met{.group = nullptr, .begin = now_(), .bytes = {}, .solution = nullptr};
  const Known* known = nullptr;  // what is known of the present `rests`
  std::vector<std::pair<Done, double>> done;
  std::vector<Rest> rests;
  const auto take = [&](Actives::iterator it) {
    Rest rest = TakeOut(it, done);
    const std::vector<std::shared_ptr<Owner>> owners = std::move(it->second.owners);
    for (size_t s = 0; s < owners.size(); ++s) {
      if (owners[s] == nullptr || owners[s]->kinds == 0) continue;  // it is not there, or has ended
      rest.set = s, rest.owner = owners[s];
      AddSets(rest, rests);
    }
    return actives_.erase(it);
  };
  take(actives_.find(number));
  while (!full.empty()) {
    const size_t before = actives_.size();
    std::vector<bool> overfull(zones_.size());
    for (const int z : full) overfull[static_cast<size_t>(z)] = true;
    for (auto it = actives_.begin(); it != actives_.end();)
      it = Crosses(it->second, overfull) ? take(it) : std::next(it);
    TWOFOLD_CHECK_LT(actives_.size(), before);  // a bundle alone never overloads a link
    // Those that begin now where the merged ones are would meet them next.
    const std::vector<bool> crossed = ZonesOf(rests);
    for (auto it = actives_.begin(); it != actives_.end();)
      it = it->second.next == 0 && Crosses(it->second, crossed) ? take(it) : std::next(it);
    full.clear();
    if (rests.empty()) break;
    Sort(rests);
    known = &Joint(rests);
    met.group = known->group, met.crossed = known->crossed, met.bytes = LeftOf(rests, *known);
    met.solution = SolutionOf(met.group, met.bytes);
    full = Overfull(met);
  }
  if (!rests.empty()) {
    SetOwners(rests, *known, met);
    actives_.emplace(next_, std::move(met));
    Take(next_++);
  }
  for (const auto& [fn, first] : done) fn(first);
}

// By class of the group: what is left. 0 of sets that are not there.
std::vector<double> Flows::LeftOf(const std::vector<Rest>& rests, const Known& known) const {
  const FlowClasses& classes = known.group->classes;
  std::vector<double> all(classes.classes.size());
  for (size_t r = 0; r < rests.size(); ++r) {
    const auto& [group, crossed, set, told_apart_by, left, owner] = rests[r];
    const size_t place = known.PlaceOf(r);
    for (size_t c = classes.first_class[place]; c < classes.first_class[place + 1]; ++c)
      all[c] = (*left)[static_cast<size_t>(group->classes.ClassOf(set, classes.classes[c].example))];
  }
  return all;
}

// The lots' classes are others now.
void Flows::SetOwners(const std::vector<Rest>& rests, const Known& known, Active& met) const {
  const FlowClasses& classes = known.group->classes;
  met.owners.resize(classes.sets.size());
  for (size_t r = 0; r < rests.size(); ++r) {
    Owner& owner = *rests[r].owner;
    owner.left.clear(), owner.kinds = 0;
    for (const std::vector<int>& lot : classes.lots[known.PlaceOf(r)]) {
      size_t left = 0;
      for (const int c : lot) left += met.bytes[static_cast<size_t>(c)] > 0;
      owner.left.push_back(left), owner.kinds += left > 0;
    }
    met.owners[known.PlaceOf(r)] = rests[r].owner;
  }
}

// If the flows of each class that the bundle has alone have equally much left, it does not matter who told them apart
// meanwhile.
void Flows::AddSets(Rest rest, std::vector<Rest>& all) const {
  const FlowClasses &classes = rest.group->classes, &alone = rest.owner->bundle->group->classes;
  std::vector<double> left(alone.classes.size(), -1);
  bool alike = true;
  for (size_t c = classes.first_class[rest.set]; c < classes.first_class[rest.set + 1] && alike; ++c) {
    const size_t example = classes.classes[c].example;
    double& first = left[static_cast<size_t>(alone.ClassOf(0, example))];
    const double own = (*rest.left)[c];
    if (first < 0) first = own;
    const double bytes = classes.sets[rest.set]->BytesOf(example) * rest.owner->bundle->scale;
    alike = std::abs(first - own) <= bytes * kBytesRounding;
  }
  if (!alike) rest.told_apart_by = rest.group;
  all.push_back(std::move(rest));
}

// In the order in which their sets first met anybody: who meets whom does not matter.
void Flows::Sort(std::vector<Rest>& rests) {
  for (const Rest& rest : rests)
    set_numbers_.try_emplace(rest.group->classes.sets[rest.set].get(), set_numbers_.size());
  std::stable_sort(rests.begin(), rests.end(), [this](const Rest& a, const Rest& b) {
    return set_numbers_.at(a.group->classes.sets[a.set].get()) < set_numbers_.at(b.group->classes.sets[b.set].get());
  });
}

const Flows::Known& Flows::Joint(const std::vector<Rest>& rests) {
  JointKey key;
  for (const Rest& rest : rests) {
    key.emplace_back(rest.group->classes.sets[rest.set].get(), rest.told_apart_by.get(),
                     rest.told_apart_by != nullptr ? rest.set : 0);
  }
  if (joints_.size() >= kMostJoints) joints_.clear();
  Known& known = joints_[key];
  if (known.group != nullptr) return known;
  std::vector<std::shared_ptr<const FlowSet>> sets;
  std::vector<FlowClassifier::Known> classes;
  for (const Rest& rest : rests) {
    sets.push_back(rest.group->classes.sets[rest.set]);
    if (rest.told_apart_by != nullptr)
      classes.push_back({&rest.group->classes, rest.set});
    else
      classes.push_back({&rest.owner->bundle->group->classes, 0});
    known.told_apart_by.push_back(rest.told_apart_by);
  }
  StartFromEarlierMeetings(key, classes);
  FindAmongMore(key, classes, known);
  if (known.group == nullptr) known.group = MakeGroup(classifier_.Classify(std::move(sets), classes));
  return known;
}

// Some of these sets may have met without the others. Classes here only split those that they had there, so these are
// where refinement may begin. Sets that others have told apart meanwhile keep what told them apart. Each meeting is
// compared with all that are known (kMostJoints).
void Flows::StartFromEarlierMeetings(const JointKey& key, std::vector<FlowClassifier::Known>& classes) const {
  std::vector<const JointKey*> of(key.size(), nullptr);  // by set: the largest such meeting
  for (const auto& [met, known] : joints_) {
    if (known.group == nullptr || !known.places.empty() || met.size() >= key.size()) continue;
    std::vector<size_t> places;  // of its sets, which are in the same order
    for (size_t s = 0; s < key.size() && places.size() < met.size(); ++s)
      if (key[s] == met[places.size()] || JointKey::value_type(std::get<0>(key[s]), nullptr, 0) == met[places.size()])
        places.push_back(s);
    if (places.size() < met.size()) continue;
    for (size_t m = 0; m < places.size(); ++m) {
      if (key[places[m]] != met[m]) continue;
      const JointKey*& largest = of[places[m]];
      if (largest != nullptr && largest->size() >= met.size()) continue;
      largest = &met;
      classes[places[m]] = {&known.group->classes, m};
    }
  }
}

// These sets and others may have met. Classes that all of these have together tell flows and links of some of them
// apart rightly, though perhaps more than they need. `classes`: what must be told apart at least.
void Flows::FindAmongMore(const JointKey& key, std::span<const FlowClassifier::Known> classes, Known& known) const {
  size_t least = 0;
  for (const auto& [of, set] : classes) least += of->ClassesOf(set);
  auto most = static_cast<size_t>(kMoreClasses * static_cast<double>(least));
  for (const auto& [met, more] : joints_) {
    if (more.group == nullptr || !more.places.empty() || met.size() <= key.size()) continue;
    if (more.group->classes.classes.size() > most) continue;
    std::vector<size_t> places;
    for (size_t m = 0; m < met.size() && places.size() < key.size(); ++m) {
      const auto& [set, told_apart_by, number] = key[places.size()];
      if (set != std::get<0>(met[m])) continue;
      if (told_apart_by != nullptr && !more.group->classes.Refine(m, told_apart_by->classes, number)) break;
      places.push_back(m);
    }
    if (places.size() < key.size()) continue;
    known.group = more.group, known.places = std::move(places);
    most = more.group->classes.classes.size() - 1;
  }
  if (known.group == nullptr) return;
  const FlowClasses& all = known.group->classes;
  std::vector<bool> crossed(all.links.size());
  for (const size_t set : known.places) {
    for (size_t c = all.first_class[set]; c < all.first_class[set + 1]; ++c)
      for (const int l : all.classes[c].links) crossed[static_cast<size_t>(l)] = true;
  }
  std::vector<int> numbers;
  for (size_t l = 0; l < crossed.size(); ++l)
    if (crossed[l]) numbers.push_back(static_cast<int>(l));
  known.crossed = std::make_shared<const std::vector<int>>(std::move(numbers));
}

}  // namespace twofold::sim
