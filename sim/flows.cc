#include "sim/flows.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"
#include "sim/at_work.h"
#include "sim/sharing/fluid.h"

namespace twofold::sim {
namespace {

constexpr double kFull = 1 + 1e-9;  // a link with a larger share of its bandwidth in use is overloaded
constexpr size_t kMostJoints = 4096;
constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

struct Flows::Group {
  FlowClasses classes;
  std::vector<std::vector<int>> zones = {};  // by link class
  // Of one set: its solution alone, of some bundle, and that bundle's scale. Others differ by a factor.
  std::shared_ptr<FlowSolution> alone = nullptr;
  double scale = 1;
};

class Flows::Bundle : public LinkHistory::Shares {
 public:
  std::vector<LinkHistory::Share> Get() const override;
  GroupPtr group;
  double scale = 1;                        // its flows' bytes, relative to those of the group's set
  std::vector<double> bytes;               // by class
  std::shared_ptr<FlowSolution> solution;  // complete
  double first = kNever;                   // when the first lot ends, since the beginning
};

// Bytes on each link class.
std::vector<LinkHistory::Share> Flows::Bundle::Get() const {
  const FlowClasses& classes = group->classes;
  std::vector<LinkHistory::Share> shares;
  for (const std::vector<int>& links : classes.links) shares.push_back({&links, 0});
  for (size_t c = 0; c < bytes.size(); ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    for (size_t l = 0; l < own.links.size(); ++l)
      shares[static_cast<size_t>(own.links[l])].bytes += own.weights[l] * bytes[c];
  }
  return shares;
}

// The lots of a bundle that shares its links with others, by kind (FlowClasses::lots).
struct Flows::Owner {
  BundlePtr bundle;
  std::vector<size_t> left;  // classes that have not ended
  size_t kinds = 0;          // kinds of lots that have not ended
  double first = kNever;     // when the first lot ended
  Done done;

  // All flows of one class have ended, and with them what only they were left of. Returns whether that was all.
  bool End(const std::vector<int>& kinds_of_lots, double time) {
    const size_t before = kinds;
    for (const int k : kinds_of_lots) {
      if (--left[static_cast<size_t>(k)] == 0) --kinds;
    }
    if (kinds < before) first = std::min(first, time);
    return kinds == 0;
  }
};

struct Flows::Active {
  GroupPtr group;
  double begin;
  std::vector<double> bytes;  // by class, at the beginning; of a bundle alone: its own
  std::shared_ptr<FlowSolution> solution;
  BundlePtr bundle = nullptr;                       // if it has met no other
  Done done = nullptr;                              // for that bundle
  std::vector<std::shared_ptr<Owner>> owners = {};  // by set, after a meeting
  size_t next = 0;                                  // step
  Later solve = nullptr;                            // not null: it is unsolved, and so are all active ones
  double most = 0;                                  // of an unsolved one: as BeginUnsolved says
};

struct Flows::Rest {
  GroupPtr group;
  size_t set = 0;                    // of the group
  GroupPtr told_apart_by = nullptr;  // null: flows with the same bytes were alike all the time
  std::vector<double> left;          // by class of `group`
  std::shared_ptr<Owner> owner;
};

Flows::Flows(const Topology& topology, std::function<double()> now, At at, LinkHistory* history)
    : now_(std::move(now)),
      at_(std::move(at)),
      history_(history),
      classifier_(topology),
      zone_of_(topology.link_count()) {}

Flows::~Flows() {
  if (history_ == nullptr || !history_->on()) return;
  std::vector<TimeBins> carried;
  for (Zone& zone : zones_) {
    Account(zone);
    carried.push_back(std::move(zone.carried));
  }
  history_->Take(zone_of_, std::move(carried));
}

void Flows::Account(Zone& zone) {
  if (history_ == nullptr) return;
  const double now = now_();
  if (zone.load > 0) history_->Add(zone.carried, zone.since, now, zone.load);
  zone.since = now;
}

double Flows::Record(const BundlePtr& bundle, double begin, int use) {
  const Group& group = *bundle->group;
  std::vector<double> loads(group.zones.size()), since(group.zones.size(), begin);
  for (const FlowSolution::Step& step : bundle->solution->known()) {
    const double time = begin + step.time;
    for (const auto& [link_class, more] : step.loads) {
      const auto c = static_cast<size_t>(link_class);
      for (const int z : group.zones[c])
        history_->Add(zones_[static_cast<size_t>(z)].carried, since[c], time, loads[c]);
      loads[c] += more, since[c] = time;
    }
  }
  if (history_->RecordsAt(begin)) history_->Began(use, bundle);
  return begin + bundle->solution->known().back().time;
}

// ---- Bundles ----

Flows::BundlePtr Flows::Solve(FlowSet flows) {
  const AtWork at_work(sim::Part::kFlows);
  auto bundle = std::make_shared<Bundle>();
  GroupPtr& group = alone_[HashOf(flows)];
  const auto set = std::make_shared<const FlowSet>(std::move(flows));
  if (group == nullptr) {
    const FlowClassifier::Known nothing;
    group = MakeGroup(classifier_.Classify({set}, {&nothing, 1}));
  }
  bundle->group = group;
  const FlowClasses& classes = group->classes;
  if (!set->empty()) bundle->scale = set->bytes[0] / classes.sets[0]->bytes[0];
  for (const FlowClasses::Class& c : classes.classes) bundle->bytes.push_back(set->BytesOf(c.example));
  SolveAlone(*bundle);
  return bundle;
}

Flows::BundlePtr Flows::SolveLike(const Bundle& like, double factor) {
  const AtWork at_work(sim::Part::kFlows);
  auto bundle = std::make_shared<Bundle>();
  bundle->group = like.group, bundle->scale = like.scale * factor;
  for (const double bytes : like.bytes) bundle->bytes.push_back(bytes * factor);
  SolveAlone(*bundle);
  return bundle;
}

void Flows::SolveAlone(Bundle& bundle) {
  const FlowClasses& classes = bundle.group->classes;
  Group& group = *bundle.group;
  if (group.alone == nullptr) {
    ++solutions_;
    group.alone = std::make_shared<FlowSolution>(classes, bundle.bytes), group.scale = bundle.scale;
    group.alone->Complete();
  }
  bundle.solution = bundle.scale == group.scale
                        ? group.alone
                        : std::make_shared<FlowSolution>(*group.alone, bundle.scale / group.scale);
  std::vector<double> ends(classes.classes.size());
  for (const FlowSolution::Step& step : bundle.solution->Complete()) {
    for (const auto& [c, rate] : step.rates) {
      if (rate == 0) ends[static_cast<size_t>(c)] = step.time;
    }
  }
  for (const std::vector<int>& lot : classes.lots[0]) {
    double end = 0;
    for (const int c : lot) end = std::max(end, ends[static_cast<size_t>(c)]);
    bundle.first = std::min(bundle.first, end);
  }
}

Flows::GroupPtr Flows::MakeGroup(FlowClasses classes) {
  auto group = std::make_shared<Group>(Group{std::move(classes)});
  FindZones(group);
  return group;
}

// Splits the zones that the group's link classes divide. What crossed a zone crosses all that it is split into.
void Flows::FindZones(const GroupPtr& group) {
  const FlowClasses& classes = group->classes;
  absl::flat_hash_map<std::pair<int, int>, std::pair<int, int>> parts;  // of a zone in a link class: links, new number
  std::pair<int, int> last(-2, -1);                                     // neighbours are often of one part
  std::pair<int, int>* part = nullptr;
  const auto part_of = [&](int zone, size_t link_class) -> std::pair<int, int>& {
    const std::pair own(zone, static_cast<int>(link_class));
    if (own != last) last = own, part = &parts[own];
    return *part;
  };
  for (size_t c = 0; c < classes.links.size(); ++c) {
    for (const int link : classes.links[c]) ++part_of(zone_of_[static_cast<size_t>(link)] - 1, c).first;
  }
  for (size_t c = 0; c < classes.links.size(); ++c) {
    for (const int link : classes.links[c]) {
      const int zone = zone_of_[static_cast<size_t>(link)] - 1;
      auto& [links, number] = part_of(zone, c);
      if (links > 0) {  // the first link of this part
        const bool whole = zone >= 0 && zones_[static_cast<size_t>(zone)].links == links;
        number = whole ? zone : static_cast<int>(zones_.size());
        if (zone < 0) {
          zones_.push_back({.links = links, .bandwidth = classes.bandwidths[c]});
        } else if (!whole) {
          zones_.push_back(zones_[static_cast<size_t>(zone)]);
          zones_.back().links = links, zones_[static_cast<size_t>(zone)].links -= links;
          std::erase_if(zones_.back().in, [&](const auto& in) {
            const GroupPtr known = in.first.lock();
            if (known != nullptr) known->zones[static_cast<size_t>(in.second)].push_back(number);
            return known == nullptr;
          });
        }
        links = 0;
      }
      zone_of_[static_cast<size_t>(link)] = number + 1;
    }
  }
  group->zones.resize(classes.links.size());
  for (const auto& [part, found] : parts) {
    group->zones[static_cast<size_t>(part.second)].push_back(found.second);
    zones_[static_cast<size_t>(found.second)].in.emplace_back(group, part.second);
  }
  for (std::vector<int>& zones : group->zones) std::sort(zones.begin(), zones.end());
}

// The solution for these bytes, perhaps from an earlier meeting.
std::shared_ptr<FlowSolution> Flows::SolutionOf(const GroupPtr& group, const std::vector<double>& left) {
  auto [solution, found] = solved_.Of({group, &group->classes}, left, now_());
  if (!found) ++solutions_;
  return solution;
}

// The zones that these flows would overload as long as all of them last.
std::vector<int> Flows::OverfullAtFirst(const Group& group, const std::vector<double>& left) const {
  const FlowClasses& classes = group.classes;
  Fluid fluid(classes.bandwidths);
  std::vector<size_t> solved;
  for (size_t c = 0; c < left.size(); ++c) {
    if (left[c] == 0) continue;
    const FlowClasses::Class& own = classes.classes[c];
    fluid.Add(own.links, left[c], own.rate, own.weights);
    solved.push_back(c);
  }
  const std::vector<double>& rates = fluid.Rates();
  std::vector<double> loads(classes.links.size());
  for (size_t i = 0; i < solved.size(); ++i) {
    const FlowClasses::Class& own = classes.classes[solved[i]];
    for (size_t l = 0; l < own.links.size(); ++l) loads[static_cast<size_t>(own.links[l])] += own.weights[l] * rates[i];
  }
  std::vector<int> full;
  for (size_t l = 0; l < loads.size(); ++l) {
    if (loads[l] > 0) AddOverfull(group, static_cast<int>(l), loads[l], full);
  }
  return full;
}

// ---- Active bundles ----

void Flows::Begin(BundlePtr bundle, Done done, int use) {
  Add(std::move(bundle), std::move(done), use);
  Take(next_ - 1);
}

void Flows::BeginTogether(BundlePtr bundle, Done done, int use) {
  Add(std::move(bundle), std::move(done), use);
  held_.push_back(next_ - 1);
}

bool Flows::Settle() {
  const std::vector<uint64_t> held = std::exchange(held_, {});
  for (const uint64_t number : held) {
    if (actives_.contains(number)) Take(number);  // otherwise it was merged
  }
  return !held.empty();
}

void Flows::BeginUnsolved(double seconds, double most, Later solve, Done done, int use) {
  double together = most;
  for (const auto& [number, active] : actives_) together += active.solve != nullptr ? active.most : kNever;
  if ((!actives_.empty() && together > 1) || history_ != nullptr) return BeginTogether(solve(), std::move(done), use);
  ++begun_;
  const double begin = now_();
  actives_.emplace(next_, Active{.group = nullptr,
                                 .begin = begin,
                                 .bytes = {},
                                 .solution = nullptr,
                                 .done = std::move(done),
                                 .solve = std::move(solve),
                                 .most = most});
  at_(begin + seconds, [this, number = next_] {
    const auto it = actives_.find(number);
    if (it == actives_.end() || it->second.solve == nullptr) return;  // it was solved, and ends by its steps
    const Done done = std::move(it->second.done);
    actives_.erase(it);
    done(now_());  // may start new bundles
  });
  ++next_;
}

// If one of them ends now, that may begin another one.
void Flows::SolveUnsolved() {
  while (true) {
    const auto unsolved =
        std::find_if(actives_.begin(), actives_.end(), [](const auto& a) { return a.second.solve != nullptr; });
    if (unsolved == actives_.end()) return;
    SolveUnsolved(unsolved);
  }
}

// Takes the steps that it has made until now.
void Flows::SolveUnsolved(Actives::iterator it) {
  const uint64_t number = it->first;
  Active& active = it->second;
  active.bundle = std::exchange(active.solve, nullptr)();
  active.group = active.bundle->group, active.solution = active.bundle->solution;
  for (const std::vector<int>& own : active.group->zones) {
    for (const int z : own) ++zones_[static_cast<size_t>(z)].users;
  }
  const std::vector<FlowSolution::Step>& steps = active.solution->known();
  for (; active.next + 1 < steps.size() && active.begin + steps[active.next].time <= now_(); ++active.next) {
    for (const auto& [link_class, more] : steps[active.next].loads) {
      for (const int z : active.group->zones[static_cast<size_t>(link_class)])
        zones_[static_cast<size_t>(z)].load += more;
    }
  }
  TakeLater(number, active);
}

void Flows::Add(BundlePtr bundle, Done done, int use) {
  const AtWork at_work(sim::Part::kFlows);
  SolveUnsolved();
  ++begun_;
  if (history_ != nullptr && history_->RecordsAt(now_())) history_->Began(use, bundle);
  TWOFOLD_CHECK(!bundle->solution->known().empty(), "a bundle has flows");
  actives_.emplace(next_, Active{.group = bundle->group,
                                 .begin = now_(),
                                 .bytes = {},
                                 .solution = bundle->solution,
                                 .bundle = bundle,
                                 .done = std::move(done)});
  ++next_;
}

// The zones that the next step would overload.
std::vector<int> Flows::Overfull(const Active& active) const {
  std::vector<int> full;
  for (const auto& [link_class, more] : active.solution->Get(active.next)->loads) {
    if (more > 0) AddOverfull(*active.group, link_class, more, full);
  }
  return full;
}

// Of the zones that this link class crosses.
void Flows::AddOverfull(const Group& group, int link_class, double more, std::vector<int>& full) const {
  for (const int z : group.zones[static_cast<size_t>(link_class)]) {
    const Zone& zone = zones_[static_cast<size_t>(z)];
    if (zone.load + more > zone.bandwidth * kFull) full.push_back(z);
  }
}

bool Flows::Crosses(const Group& group, const std::vector<bool>& zones) const {
  for (const std::vector<int>& own : group.zones) {
    for (const int z : own) {
      if (zones[static_cast<size_t>(z)]) return true;
    }
  }
  return false;
}

// By zone: whether some of `rests` cross it.
std::vector<bool> Flows::ZonesOf(const std::vector<Rest>& rests) const {
  std::vector<bool> crossed(zones_.size());
  for (const Rest& rest : rests) {
    for (const std::vector<int>& own : rest.group->zones)
      for (const int z : own) crossed[static_cast<size_t>(z)] = true;
  }
  return crossed;
}

void Flows::Release(const Group& group) {
  for (const std::vector<int>& own : group.zones) {
    for (const int z : own) {
      Zone& zone = zones_[static_cast<size_t>(z)];
      if (--zone.users > 0) continue;
      Account(zone);
      zone.load = 0;  // removes rounding errors
    }
  }
}

// Takes the next step of bundle `number`.
void Flows::Take(uint64_t number) {
  const AtWork at_work(sim::Part::kFlows);
  Active& active = actives_.at(number);
  if (std::vector<int> full = Overfull(active); !full.empty()) return Meet(number, std::move(full));
  const Group& group = *active.group;
  if (active.next == 0) {
    for (const std::vector<int>& own : group.zones) {
      for (const int z : own) ++zones_[static_cast<size_t>(z)].users;
    }
  }
  const FlowSolution::Step step = *active.solution->Get(active.next);
  for (const auto& [link_class, more] : step.loads) {
    for (const int z : group.zones[static_cast<size_t>(link_class)]) {
      Zone& zone = zones_[static_cast<size_t>(z)];
      Account(zone);
      zone.load += more;
    }
  }
  const bool last = active.solution->Get(++active.next) == nullptr;
  if (active.bundle != nullptr) {
    if (!last) return TakeLater(number, active);
    const Done done = std::move(active.done);
    const double first = active.begin + active.bundle->first;
    Release(group);
    actives_.erase(number);
    return done(first);  // may start new bundles
  }
  const double now = now_();
  std::vector<std::pair<Done, double>> done;
  for (const auto& [c, rate] : step.rates) {
    if (rate > 0) continue;
    Owner& owner = *active.owners[group.classes.classes[static_cast<size_t>(c)].set];
    if (owner.End(group.classes.lots_of[static_cast<size_t>(c)], now))
      done.emplace_back(std::move(owner.done), owner.first);
  }
  if (last) {
    Release(group);
    actives_.erase(number);
  } else {
    TakeLater(number, active);
  }
  for (const auto& [fn, first] : done) fn(first);
}

void Flows::TakeLater(uint64_t number, const Active& active) {
  at_(active.begin + active.solution->Get(active.next)->time, [this, number] {
    if (actives_.contains(number)) Take(number);  // otherwise it was merged
  });
}

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
  for (size_t c = 0; c < left.size(); ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    for (size_t l = 0; l < own.links.size(); ++l) {
      for (const int z : active.group->zones[static_cast<size_t>(own.links[l])]) {
        Zone& zone = zones_[static_cast<size_t>(z)];
        Account(zone);
        zone.load -= own.weights[l] * rates[c];
      }
    }
    left[c] -= rates[c] * (since_begin - since[c]);
    const double bytes = classes.sets[own.set]->BytesOf(own.example) * active.owners[own.set]->bundle->scale;
    const double rounding = bytes * kBytesRounding + rates[c] * now * kTimesRounding;
    if (left[c] > rounding) continue;
    left[c] = 0;
    if (rates[c] == 0) continue;  // it had ended before
    Owner& owner = *active.owners[own.set];
    if (owner.End(classes.lots_of[c], now)) done.emplace_back(std::move(owner.done), owner.first);
  }
  if (active.next > 0) Release(*active.group);
  return {.group = active.group, .left = std::move(left), .owner = nullptr};
}

// The next step of bundle `number` would overload zones: merges the bundles that meet there.
void Flows::Meet(uint64_t number, std::vector<int> full) {
  ++meetings_;
  Active met{.group = nullptr, .begin = now_(), .bytes = {}, .solution = nullptr};
  std::vector<std::pair<Done, double>> done;
  std::vector<Rest> rests;
  const auto take = [&](Actives::iterator it) {
    Rest rest = TakeOut(it, done);
    const std::vector<std::shared_ptr<Owner>> owners = std::move(it->second.owners);
    for (size_t s = 0; s < owners.size(); ++s) {
      if (owners[s]->kinds == 0) continue;  // it has ended
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
      it = Crosses(*it->second.group, overfull) ? take(it) : std::next(it);
    TWOFOLD_CHECK_LT(actives_.size(), before);  // a bundle alone never overloads a link
    // Those that begin now where the merged ones are would meet them next.
    const std::vector<bool> crossed = ZonesOf(rests);
    for (auto it = actives_.begin(); it != actives_.end();)
      it = it->second.next == 0 && Crosses(*it->second.group, crossed) ? take(it) : std::next(it);
    full.clear();
    if (rests.empty()) break;
    met.group = Joint(rests);
    const FlowClasses& classes = met.group->classes;
    met.bytes.clear();
    for (const FlowClasses::Class& c : classes.classes) {
      const Rest& rest = rests[c.set];
      met.bytes.push_back(rest.left[static_cast<size_t>(rest.group->classes.ClassOf(rest.set, c.example))]);
    }
    full = OverfullAtFirst(*met.group, met.bytes);
  }
  if (!rests.empty()) {
    met.solution = SolutionOf(met.group, met.bytes);
    const FlowClasses& classes = met.group->classes;
    for (size_t s = 0; s < rests.size(); ++s) {  // the lots' classes are others now
      Owner& owner = *rests[s].owner;
      owner.left.clear(), owner.kinds = 0;
      for (const std::vector<int>& lot : classes.lots[s]) {
        size_t left = 0;
        for (const int c : lot) left += met.bytes[static_cast<size_t>(c)] > 0;
        owner.left.push_back(left), owner.kinds += left > 0;
      }
      met.owners.push_back(rests[s].owner);
    }
    actives_.emplace(next_, std::move(met));
    Take(next_++);
  }
  for (const auto& [fn, first] : done) fn(first);
}

// If the flows of each class that the bundle has alone have equally much left, it does not matter who told them apart
// meanwhile.
void Flows::AddSets(Rest rest, std::vector<Rest>& all) const {
  const FlowClasses &classes = rest.group->classes, &alone = rest.owner->bundle->group->classes;
  std::vector<double> left(alone.classes.size(), -1);
  bool alike = true;
  for (size_t c = 0; c < classes.classes.size() && alike; ++c) {
    const FlowClasses::Class& own = classes.classes[c];
    if (own.set != rest.set) continue;
    double& first = left[static_cast<size_t>(alone.ClassOf(0, own.example))];
    if (first < 0) first = rest.left[c];
    const double bytes = classes.sets[own.set]->BytesOf(own.example) * rest.owner->bundle->scale;
    alike = std::abs(first - rest.left[c]) <= bytes * kBytesRounding;
  }
  if (!alike) rest.told_apart_by = rest.group;
  all.push_back(std::move(rest));
}

Flows::GroupPtr Flows::Joint(const std::vector<Rest>& rests) {
  JointKey key;
  for (const Rest& rest : rests) {
    key.emplace_back(rest.group->classes.sets[rest.set].get(), rest.told_apart_by.get(),
                     rest.told_apart_by != nullptr ? rest.set : 0);
  }
  if (joints_.size() >= kMostJoints) joints_.clear();
  Known& known = joints_[key];
  if (known.group != nullptr) return known.group;
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
  known.group = MakeGroup(classifier_.Classify(std::move(sets), classes));
  return known.group;
}

}  // namespace twofold::sim
