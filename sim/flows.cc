#include "sim/flows.h"

#include <algorithm>
#include <limits>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

constexpr double kFull = 1 + 1e-9;   // a link with a larger share of its bandwidth in use is overloaded
constexpr double kRounding = 1e-12;  // share of a flow's bytes: a flow with less left has ended
constexpr double kClock = 1e-15;     // the relative error allowed in times

}  // namespace

class Flows::Bundle {
 public:
  struct Step {
    double time;                                // since the bundle's start
    std::vector<std::pair<int, double>> rates;  // flow, its rate from now on; 0: it has ended
    std::vector<std::pair<int, double>> loads;  // link, change of its load; in the order of links
  };
  std::vector<Part> parts;
  std::vector<int> links;  // sorted
  std::vector<Step> steps;
  std::vector<double> lot_ends;                            // since the bundle's start; -1: there is no such lot
  double first = std::numeric_limits<double>::infinity();  // the earliest of lot_ends

  // For each flow: bytes left and rate at `time` after the start and before step number `next`.
  struct Left {
    double bytes, rate = 0, since = 0;
  };
  std::vector<Left> LeftAt(double time, size_t next) const {
    std::vector<Left> left;
    for (const Part& part : parts) left.push_back({part.bytes});
    auto run = [](Left& l, double until) { l.bytes -= l.rate * (until - l.since), l.since = until; };
    for (size_t s = 0; s < next; ++s) {
      for (const auto& [flow, rate] : steps[s].rates) {
        Left& l = left[static_cast<size_t>(flow)];
        run(l, steps[s].time);
        l.rate = rate;
        if (rate == 0) l.bytes = 0;
      }
    }
    for (Left& l : left) run(l, time);
    return left;
  }
};

struct Flows::Owner {
  std::vector<size_t> left;  // by lot: flows that have not ended
  size_t lots;               // number of lots that have not ended
  double first;              // when the first lot ended
  Done done;

  // One flow of lot `lot` has ended. Returns whether it was the last of all flows.
  bool End(int lot, double time) {
    if (--left[static_cast<size_t>(lot)] > 0) return false;
    first = std::min(first, time);
    return --lots == 0;
  }
};

Flows::Flows(const Topology& topology, std::function<double()> now, At at)
    : now_(std::move(now)),
      at_(std::move(at)),
      loads_(topology.links().size()),
      users_(loads_.size()),
      local_(loads_.size(), -1) {
  for (const Link& link : topology.links()) bandwidths_.push_back(link.bandwidth.value());
}

Flows::~Flows() = default;

Flows::BundlePtr Flows::Solve(std::vector<Part> parts) {
  auto bundle = std::make_shared<Bundle>();
  bundle->parts = std::move(parts);
  std::vector<int>& links = bundle->links;
  for (const Part& part : bundle->parts) {
    for (int link : part.links) {
      if (std::exchange(local_[static_cast<size_t>(link)], 0) < 0) links.push_back(link);
    }
  }
  std::sort(links.begin(), links.end());
  std::vector<double> bandwidths;
  for (size_t l = 0; l < links.size(); ++l) {
    local_[static_cast<size_t>(links[l])] = static_cast<int>(l);
    bandwidths.push_back(bandwidths_[static_cast<size_t>(links[l])]);
  }
  Fluid fluid(std::move(bandwidths));
  std::vector<std::vector<int>> crossed;  // by part, in the bundle's own link numbers
  for (const Part& part : bundle->parts) {
    std::vector<int>& own = crossed.emplace_back();
    for (int link : part.links) own.push_back(local_[static_cast<size_t>(link)]);
    fluid.Add(own, part.bytes, part.rate);
  }
  for (int link : links) local_[static_cast<size_t>(link)] = -1;
  std::vector<Fluid::Change> changes;
  fluid.Solve(changes);
  std::vector<double> rates(bundle->parts.size()), more(links.size());
  for (size_t c = 0; c < changes.size();) {
    Bundle::Step step{.time = changes[c].time, .rates = {}, .loads = {}};
    std::vector<int> touched;
    for (; c < changes.size() && changes[c].time <= step.time * (1 + kRounding); ++c) {
      const auto [time, flow, rate] = changes[c];
      double& before = rates[static_cast<size_t>(flow)];
      if (rate == before) continue;
      step.rates.emplace_back(flow, rate);
      for (int l : crossed[static_cast<size_t>(flow)])
        more[static_cast<size_t>(l)] += rate - before, touched.push_back(l);
      before = rate;
      if (rate > 0) continue;
      const auto lot = static_cast<size_t>(bundle->parts[static_cast<size_t>(flow)].lot);
      if (lot >= bundle->lot_ends.size()) bundle->lot_ends.resize(lot + 1, -1);
      bundle->lot_ends[lot] = step.time;
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int l : touched) {
      if (const double delta = std::exchange(more[static_cast<size_t>(l)], 0); delta != 0)
        step.loads.emplace_back(links[static_cast<size_t>(l)], delta);
    }
    if (!step.rates.empty()) bundle->steps.push_back(std::move(step));
  }
  for (double end : bundle->lot_ends) {
    if (end >= 0) bundle->first = std::min(bundle->first, end);
  }
  return bundle;
}

void Flows::Begin(BundlePtr bundle, Done done) {
  TWOFOLD_CHECK(!bundle->parts.empty(), "a bundle has flows");
  actives_.emplace(next_, Active{std::move(bundle), now_(), std::move(done)});
  Take(next_++);
}

std::vector<int> Flows::Overfull(const Bundle& bundle, size_t step) const {
  std::vector<int> full;
  for (const auto& [link, more] : bundle.steps[step].loads) {
    const auto l = static_cast<size_t>(link);
    if (more > 0 && loads_[l] + more > bandwidths_[l] * kFull) full.push_back(link);
  }
  return full;
}

void Flows::Release(const Active& active) {
  for (int link : active.bundle->links) {
    const auto l = static_cast<size_t>(link);
    if (--users_[l] == 0) loads_[l] = 0;  // removes rounding errors
  }
}

// Takes the next step of bundle `number`.
void Flows::Take(uint64_t number) {
  Active& active = actives_.at(number);
  const Bundle& bundle = *active.bundle;
  const Bundle::Step& step = bundle.steps[active.next];
  if (std::vector<int> full = Overfull(bundle, active.next); !full.empty()) return Meet(number, std::move(full));
  if (active.next == 0) {
    for (int link : bundle.links) ++users_[static_cast<size_t>(link)];
  }
  for (const auto& [link, more] : step.loads) loads_[static_cast<size_t>(link)] += more;
  const bool last = ++active.next == bundle.steps.size();
  const double now = now_();
  std::vector<std::pair<Done, double>> done;
  if (active.owners.empty() && last) done.emplace_back(std::move(active.done), active.begin + bundle.first);
  for (size_t i = 0; !active.owners.empty() && i < step.rates.size(); ++i) {
    const auto [flow, rate] = step.rates[i];
    Owner& owner = *active.owners[static_cast<size_t>(flow)];
    if (rate == 0 && owner.End(bundle.parts[static_cast<size_t>(flow)].lot, now))
      done.emplace_back(std::move(owner.done), owner.first);
  }
  if (last) {
    Release(active);
    const BundlePtr ended = active.bundle;  // keeps the bundle alive: the step above belongs to it
    actives_.erase(number);
  } else {
    at_(active.begin + bundle.steps[active.next].time, [this, number] {
      if (actives_.contains(number)) Take(number);  // otherwise it was merged
    });
  }
  for (const auto& [fn, first] : done) fn(first);  // may start new bundles
}

// The next step of bundle `number` would overload the links `full`: merges the bundles that meet there.
void Flows::Meet(uint64_t number, std::vector<int> full) {
  ++meetings_;
  const double now = now_();
  std::vector<Part> parts;
  Active met{nullptr, now, nullptr};
  std::vector<std::pair<Done, double>> done;
  auto take = [&](Actives::iterator it) {
    Active& active = it->second;
    const Bundle& bundle = *active.bundle;
    const bool alone = active.owners.empty();
    if (alone) {
      const auto owner =
          std::make_shared<Owner>(Owner{std::vector<size_t>(bundle.lot_ends.size()), 0,
                                        std::numeric_limits<double>::infinity(), std::move(active.done)});
      for (const Part& part : bundle.parts) owner->lots += owner->left[static_cast<size_t>(part.lot)]++ == 0;
      active.owners.assign(bundle.parts.size(), owner);
    }
    const std::vector<Bundle::Left> left = bundle.LeftAt(now - active.begin, active.next);
    for (size_t f = 0; f < left.size(); ++f) {
      const auto& [bytes, rate, since] = left[f];
      const Part& part = bundle.parts[f];
      Owner& owner = *active.owners[f];
      if (bytes > part.bytes * kRounding + rate * now * kClock) {
        parts.push_back({part.links, bytes, part.rate, part.lot});
        met.owners.push_back(active.owners[f]);
      } else if (alone || rate > 0) {  // otherwise its end was already reported
        const double end = rate > 0 ? now : active.begin + bundle.lot_ends[static_cast<size_t>(part.lot)];
        if (owner.End(part.lot, end)) done.emplace_back(std::move(owner.done), owner.first);
      }
      for (int link : part.links) loads_[static_cast<size_t>(link)] -= rate;
    }
    if (active.next > 0) Release(active);
    return actives_.erase(it);
  };
  take(actives_.find(number));
  while (!full.empty()) {
    const size_t before = actives_.size();
    for (auto it = actives_.begin(); it != actives_.end();) {
      const std::vector<int>& links = it->second.bundle->links;
      const bool meets = std::any_of(full.begin(), full.end(),
                                     [&](int l) { return std::binary_search(links.begin(), links.end(), l); });
      it = meets ? take(it) : std::next(it);
    }
    TWOFOLD_CHECK_LT(actives_.size(), before);  // a bundle alone never overloads a link
    met.bundle = Solve(parts);
    full = parts.empty() ? std::vector<int>() : Overfull(*met.bundle, 0);
  }
  if (!parts.empty()) {
    actives_.emplace(next_, std::move(met));
    Take(next_++);
  }
  for (const auto& [fn, first] : done) fn(first);
}

}  // namespace twofold::sim
