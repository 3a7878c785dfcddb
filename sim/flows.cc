#include "sim/flows.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
#include "sim/at_work.h"
#include "sim/flow_bundles.h"
#include "sim/link_history.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_solution.h"

namespace twofold::sim {

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
  ++classified_, most_classes_ = std::max(most_classes_, group->classes.classes.size());
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
  const bool all_unsolved = unsolved_ == actives_.size();
  for (auto it = actives_.begin(); all_unsolved && it != actives_.end(); ++it) together += it->second.most;
  if (!all_unsolved || (!actives_.empty() && together > 1) || history_ != nullptr)
    return BeginTogether(solve(), std::move(done), use);
  ++unsolved_;
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
    actives_.erase(it), --unsolved_;
    done(now_());  // may start new bundles
  });
  ++next_;
}

// If one of them ends now, that may begin another one.
void Flows::SolveUnsolved() {
  while (unsolved_ > 0) {
    SolveUnsolved(
        std::find_if(actives_.begin(), actives_.end(), [](const auto& a) { return a.second.solve != nullptr; }));
  }
}

// Takes the steps that it has made until now.
void Flows::SolveUnsolved(Actives::iterator it) {
  const uint64_t number = it->first;
  Active& active = it->second;
  --unsolved_;
  active.bundle = std::exchange(active.solve, nullptr)();
  active.group = active.bundle->group, active.solution = active.bundle->solution;
  ForZones(*active.group, nullptr, [this](size_t z) { ++zones_[z].users; });
  const std::vector<FlowSolution::Step>& steps = active.solution->known();
  while (active.next + 1 < steps.size() && active.begin + steps[active.next].time <= now_()) ++active.next;
  Load(active);
  TakeLater(number, active);
}

// Adds the loads of the steps that it has taken to its zones.
void Flows::Load(Active& active) {
  if (active.loaded == active.next) return;
  if (more_.size() < active.group->zones.size()) more_.resize(active.group->zones.size());
  for (; active.loaded < active.next; ++active.loaded) {
    for (const auto& [link_class, more] : active.solution->Get(active.loaded)->loads) {
      double& all = more_[static_cast<size_t>(link_class)];
      if (all == 0) loaded_.push_back(link_class);
      all += more;
    }
  }
  for (const int link_class : loaded_) {
    const double more = std::exchange(more_[static_cast<size_t>(link_class)], 0);
    if (more == 0) continue;  // it was added before, or is none
    for (const int z : active.group->zones[static_cast<size_t>(link_class)]) {
      Zone& zone = zones_[static_cast<size_t>(z)];
      Account(zone);
      zone.load += more;
    }
  }
  loaded_.clear();
}

void Flows::Add(BundlePtr bundle, Done done, int use) {
  const AtWork at_work(sim::Part::kFlows);
  SolveUnsolved();
  ++begun_;
  if (history_ != nullptr && history_->RecordsAt(now_())) history_->Began(use, bundle);
  TWOFOLD_CHECK(!bundle->solution->known().empty(), "a bundle has flows");
  for (auto& [number, active] : actives_) Load(active);
  actives_.emplace(next_, Active{.group = bundle->group,
                                 .begin = now_(),
                                 .bytes = {},
                                 .solution = bundle->solution,
                                 .bundle = bundle,
                                 .done = std::move(done)});
  ++next_;
}

void Flows::Release(const Group& group, const Crossed& crossed) {
  ForZones(group, crossed, [this](size_t z) {
    Zone& zone = zones_[z];
    if (--zone.users > 0) return;
    Account(zone);
    zone.load = 0;  // removes rounding errors
  });
}

// Takes the next step of bundle `number`.
void Flows::Take(uint64_t number) {
  const AtWork at_work(sim::Part::kFlows);
  Active& active = actives_.at(number);
  const bool alone = actives_.size() == 1 && history_ == nullptr;
  if (!alone) {
    if (std::vector<int> full = Overfull(active); !full.empty()) return Meet(number, std::move(full));
  }
  const Group& group = *active.group;
  if (active.next == 0) ForZones(group, active.crossed, [this](size_t z) { ++zones_[z].users; });
  const std::shared_ptr<FlowSolution> solution = active.solution;
  const size_t step = active.next++;
  if (!alone) Load(active);
  const bool last = solution->Get(active.next) == nullptr;
  if (active.bundle != nullptr) {
    if (!last) return TakeLater(number, active);
    const Done done = std::move(active.done);
    const double first = active.begin + active.bundle->first;
    Release(group, active.crossed);
    actives_.erase(number);
    return done(first);  // may start new bundles
  }
  const double now = now_();
  std::vector<std::pair<Done, double>> done;
  for (const auto& [c, rate] : solution->Get(step)->rates) {
    if (rate > 0) continue;
    Owner& owner = *active.owners[group.classes.classes[static_cast<size_t>(c)].set];
    if (owner.End(group.classes.lots_of[static_cast<size_t>(c)], now))
      done.emplace_back(std::move(owner.done), owner.first);
  }
  if (last) {
    Release(group, active.crossed);
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

}  // namespace twofold::sim
