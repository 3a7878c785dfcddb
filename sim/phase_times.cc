#include "sim/phase_times.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/latency.h"
#include "sim/rail_twins.h"
#include "sim/sharing/flow_solution.h"
#include "sim/sharing/fluid.h"
#include "sim/sharing/hashes.h"

namespace twofold::sim {
namespace {

// Parts of flows that choose paths by load in one phase, if each rank sends many messages, which spread by themselves.
// All-to-all of 4,096 ranks takes at most 0.3 % longer with the 2 to 5 paths that are left to each message than with 16
// (alps, frontier, perlmutter, slingshot-100k). With one or two messages of each rank it would be 2 to 11 %.
constexpr size_t kMostRouted = 3 << 19, kManyOfOne = 16;
constexpr double kAtOnce = 1e-12;  // ends that differ by less, relative to their time, are equal

Pair PairOf(const PhaseTimes::Part& part, const Flow& f) {
  return {part.endpoints[static_cast<size_t>(f.from)], part.endpoints[static_cast<size_t>(f.to)], f.rail};
}

bool HasNoBytes(const PhaseTimes::Part& part) {
  const std::vector<Flow>& kinds = part.phase.flows.kinds();
  return std::all_of(kinds.begin(), kinds.end(), [](const Flow& f) { return f.bytes == 0; });
}

// When flows end that begin together and have the links to themselves, each for itself.
std::vector<double> EndsOf(const Topology& topology, const FlowSet& flows) {
  Fluid fluid(topology);
  std::vector<int> weights;
  for (size_t f = 0; f < flows.flows(); ++f) {
    weights.assign(flows.LinksOf(f).size(), flows.parts[f]);
    fluid.Add(flows.LinksOf(f), flows.bytes[f], flows.rates[f], weights);
  }
  return fluid.Solve();
}

// When the flows of each class end that begin together and have the links to themselves. `classes`: of such flows,
// which may have other bytes in the same proportions.
std::vector<double> EndsOf(const FlowClasses& classes, const FlowSet& flows) {
  std::vector<double> bytes, ends(classes.classes.size());
  for (const FlowClasses::Class& c : classes.classes) bytes.push_back(flows.bytes[c.example]);
  FlowSolution solution(classes, bytes);
  for (const FlowSolution::Step& step : solution.Complete()) {
    for (const auto& [c, rate] : step.rates) {
      if (rate == 0) ends[static_cast<size_t>(c)] = step.time;
    }
  }
  return ends;
}

}  // namespace

PhaseTimes::PhaseTimes(const Topology& topology, Router& router)
    : topology_(topology), router_(router), bandwidths_(topology.link_count()), seen_(topology.link_count()) {}

std::shared_ptr<const Paths> PhaseTimes::Route(std::span<const Part> parts) {
  if (!router_.depends_on_load() || std::all_of(parts.begin(), parts.end(), HasNoBytes)) return nullptr;
  std::vector<Request>& requests = requests_;
  requests.clear();
  for (const Part& part : parts) {
    requests.reserve(requests.size() + part.phase.flows.size());
    uint64_t number = 0;
    part.phase.flows.ForEach([&](const Flow& f) { requests.push_back({PairOf(part, f), number++, f.bytes}); });
  }
  if (paths_.use_count() != 1) paths_ = std::make_shared<Paths>();  // else its memory serves again
  size_t senders = 1;
  for (const Part& part : parts) senders += part.endpoints.size();
  const bool many = requests.size() >= kManyOfOne * senders;
  const size_t most = many ? std::max<size_t>(1, kMostRouted / requests.size()) : kMostRouted;
  const int usual = router_.options().most_paths, own = static_cast<int>(std::min(most, static_cast<size_t>(usual)));
  fewest_paths_ = std::min(fewest_paths_.value_or(usual), own);
  router_.Try(requests, own, *paths_);
  return paths_;
}

double PhaseTimes::LatencyOf(const Paths& paths, size_t flow) const {
  double mean = 0;
  for (int p = 0; p < paths.of(flow); ++p) {
    const auto [links, share, parts] = paths.At(flow, p);
    for (const int link : links) mean += share * topology_.RatesOf(link).latency.value();
  }
  return mean;
}

template <class Visit>
std::vector<double> PhaseTimes::List(std::span<const Part> parts, const Paths* paths, std::vector<double>& routes,
                                     Visit&& visit) {
  std::vector<double> latencies;  // of parts
  std::vector<Path> chosen;
  size_t number = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Phase& phase = parts[p].phase;
    const bool pipelined = IsPipelined(phase), none_counts = !pipelined && phase.rounds == 0;
    routes.assign(none_counts ? 0 : phase.flows.size(), 0);
    const size_t first = number;
    phase.flows.ForEach([&](const Flow& f) {
      const size_t i = number++ - first;
      const bool counts = RouteCounts(phase, pipelined, f);
      if (paths != nullptr) {
        if (counts) routes[i] = LatencyOf(*paths, number - 1);
        for (int k = 0; k < paths->of(number - 1); ++k) {
          const auto [links, share, own] = paths->At(number - 1, k);
          visit(p, f, share / own, own, links);
        }
        return;
      }
      if (f.bytes == 0 && !counts) return;
      const Pair pair = PairOf(parts[p], f);
      if (router_.depends_on_load()) {  // nothing has bytes: every flow takes its usual way, and meets nobody there
        if (counts) routes[i] = topology_.Latency(pair).value();
        return;
      }
      router_.Choose(pair, i, f.bytes, chosen);
      if (counts) routes[i] = RouteLatency(topology_, router_.options().policy, pair, chosen);
      for (const Path& path : chosen) visit(p, f, path.share, 1, std::span<const int>(path.links));
    });
    latencies.push_back(PhaseLatency(phase, routes, topology_.alpha().value()));
  }
  return latencies;
}

void PhaseTimes::Count(std::span<const int> links, double bytes, int parts) {
  for (const int link : links) {
    uint64_t& seen = seen_[static_cast<size_t>(link)];
    if (seen >> 32 != counting_) {
      seen = counting_ << 32 | uses_.size();
      double& bandwidth = bandwidths_[static_cast<size_t>(link)];
      if (bandwidth == 0) bandwidth = topology_.RatesOf(link).bandwidth.value();
      uses_.push_back({bandwidth, bytes * parts, bytes, bytes, parts});
      continue;
    }
    Use& use = uses_[static_cast<uint32_t>(seen)];
    use.count += parts, use.bytes += bytes * parts;
    use.most = std::max(use.most, bytes), use.least = std::min(use.least, bytes);
  }
}

PhaseTimes::Extremes PhaseTimes::TakeExtremes() {
  // The largest bytes / bandwidth, and most bytes * count / bandwidth; products are compared, since they cost less.
  // Their factors are variables, so that a link need not wait for those before it.
  const Use *busiest = nullptr, *slowest = nullptr;
  double busy_bytes = 0, busy_bandwidth = 1, slow_bytes = 0, slow_bandwidth = 1;
  bool alike = false;  // all flows of a slowest link
  for (const Use& use : uses_) {
    if (use.bytes * busy_bandwidth > busy_bytes * use.bandwidth) [[unlikely]]
      busiest = &use, busy_bytes = use.bytes, busy_bandwidth = use.bandwidth;
    const double bytes = use.most * static_cast<double>(use.count);
    const double own = bytes * slow_bandwidth, other = slow_bytes * use.bandwidth;
    if (own < other) continue;
    alike = use.least >= use.most * (1 - kAtOnce) || (own == other && alike);
    if (own > other) [[unlikely]]
      slowest = &use, slow_bytes = bytes, slow_bandwidth = use.bandwidth;
  }
  Extremes extremes{.alike = alike};
  if (busiest != nullptr) extremes.busiest = *busiest;
  if (slowest != nullptr) extremes.slowest = *slowest;
  uses_.clear();
  ++counting_;
  return extremes;
}

PhaseTimes::Bounds PhaseTimes::BoundsOf(const Extremes& extremes, double factor, double limited) {
  Bounds bounds{limited, limited, true};
  if (!extremes.slowest) return bounds;
  const Use &busiest = *extremes.busiest, &slowest = *extremes.slowest;
  // In the steps in which fluid.h computes it: a share of the link's bandwidth, then the time at that rate.
  const double most = factor * slowest.most / (slowest.bandwidth / static_cast<double>(slowest.count));
  if (most > limited) bounds = {factor * busiest.bytes / busiest.bandwidth, most, extremes.alike};
  bounds.least = std::max(bounds.least, limited);
  return bounds;
}

PhaseTimes::Sizes PhaseTimes::SizesOf(const Part& part) const {
  const FlowList& flows = part.phase.flows;
  const RoutingPolicy policy = router_.options().policy;
  Sizes sizes;
  if (flows.pattern() == nullptr || (policy != RoutingPolicy::kDeterministic && policy != RoutingPolicy::kEcmp))
    return sizes;
  for (const Flow& kind : flows.kinds()) {
    const auto known = std::find(sizes.bytes.begin(), sizes.bytes.end(), kind.bytes);
    sizes.of.push_back(static_cast<size_t>(known - sizes.bytes.begin()));
    if (known == sizes.bytes.end()) sizes.bytes.push_back(kind.bytes);
  }
  return sizes.bytes.size() <= LinkStates::kMostSizes ? sizes : Sizes();
}

PhaseTimes::Pattern PhaseTimes::PatternOf(const Part& part, const Sizes& sizes) {
  const FlowList& flows = part.phase.flows;
  const bool pipelined = IsPipelined(part.phase);
  const double per_byte = 1 / flows.kinds()[0].bytes;
  SequenceHash hash(flows.size() << 1 | (pipelined ? 1 : 0));
  const auto add_kind = [&](const Flow& f) {
    // Shares that differ by rounding are equal: without the last 12 bits, rounded.
    const uint64_t share = (std::bit_cast<uint64_t>(f.bytes * per_byte) + (1 << 11)) >> 12;
    hash.Add(share << 11 ^ static_cast<uint64_t>(f.rail + 1) << 1 ^ (RouteCounts(part.phase, pipelined, f) ? 1 : 0));
  };
  if (flows.pattern() != nullptr) {  // which is kept with what is known of it, so that no other has its address
    hash.Add(reinterpret_cast<uintptr_t>(flows.pattern().get()));
    const std::span<const int> all = part.endpoints;
    for (size_t e = 0; e + 1 < all.size(); e += 2)
      hash.Add(static_cast<uint64_t>(all[e]) << 32 | static_cast<uint64_t>(all[e + 1]));
    hash.Add(static_cast<uint64_t>(all.back()));
    for (size_t k = 0; k < flows.kinds().size(); ++k) {
      const Flow& f = flows.kinds()[k];
      if (sizes.of.empty()) {
        add_kind(f);
        continue;
      }
      hash.Add(sizes.of[k] << 1 ^ (f.bytes == 0 ? 1 : 0));
      hash.Add(static_cast<uint64_t>(f.rail + 1) << 1 ^ (RouteCounts(part.phase, pipelined, f) ? 1 : 0));
    }
    return hash.Get();
  }
  for (const Flow& f : flows) {
    const auto [from, to, rail] = PairOf(part, f);
    hash.Add(static_cast<uint64_t>(from) << 32 | static_cast<uint64_t>(to));
    add_kind(f);
  }
  return hash.Get();
}

// Where the bounds of several parts meet, it is unknown whether all of them take that long.
PhaseTimes::Time PhaseTimes::Bound(std::span<const Part> parts) {
  const bool by_pattern = parts.size() == 1 && !router_.depends_on_load() && !parts[0].phase.flows.empty() &&
                          parts[0].phase.flows.kinds()[0].bytes > 0;
  if (by_pattern) return BoundByPattern(parts[0]);
  if (const auto nothing = parts.size() == 1 ? BoundOfNothing(parts[0]) : std::nullopt) return *nothing;
  const std::shared_ptr<const Paths> paths = Route(parts);
  double limited = 0;
  std::vector<double> routes;
  const std::vector<double> latencies =
      List(parts, paths.get(), routes, [&](size_t, const Flow& f, double share, int own, std::span<const int> links) {
        if (f.bytes == 0) return;  // it ends at once
        if (std::isfinite(f.rate)) limited = std::max(limited, f.bytes / f.rate);
        Count(links, f.bytes * share, own);
      });
  const Bounds bounds = BoundsOf(TakeExtremes(), 1, limited);
  const bool exact = bounds.meet && parts.size() == 1;
  const double latency = *std::max_element(latencies.begin(), latencies.end());
  return {.latency = latency,
          .seconds = latency + (exact ? bounds.most : bounds.least),
          .exact = exact,
          .together = exact,
          .paths = exact ? nullptr : paths};
}

void PhaseTimes::CountPhase(const Part& part, const Sizes& sizes, Known& into) {
  const bool by_size = !sizes.of.empty();
  if (by_size) {
    if (!states_) states_.emplace(topology_);
    states_->Start(sizes.bytes);
    if (const auto twins = RailTwins::Of(topology_, router_.options().policy, part.phase, part.endpoints)) {
      twins->Cross(*states_);
      into.by_kind = twins->Routes();
      into.loads = states_->Loads();
      return;
    }
  }
  List({&part, 1}, nullptr, into.routes, [&](size_t, const Flow& f, double share, int own, std::span<const int> links) {
    if (f.bytes == 0) return;
    if (by_size)
      states_->Cross(links, f.bytes);
    else
      Count(links, f.bytes * share, own);
  });
  if (by_size)
    into.loads = states_->Loads();
  else
    into.extremes = TakeExtremes();
}

// Kinds of one size may have different rates: the highest counts.
double PhaseTimes::MostOf(const std::vector<LinkStates::Load>& loads, const Sizes& sizes,
                          const std::vector<Flow>& kinds) {
  std::vector<double> rates(sizes.bytes.size());
  for (size_t k = 0; k < kinds.size(); ++k)
    if (kinds[k].bytes > 0) rates[sizes.of[k]] = std::max(rates[sizes.of[k]], kinds[k].rate);
  double most = 0;
  for (const LinkStates::Load& load : loads) {
    double rate = 0;
    for (size_t s = 0; s < rates.size(); ++s)
      if (load.flows[s] > 0) rate += load.flows[s] * rates[s];
    most = std::max(most, rate / load.bandwidth);
  }
  return most;
}

PhaseTimes::Time PhaseTimes::BoundByPattern(const Part& part) {
  constexpr size_t kMostKnown = 8;
  const FlowList& flows = part.phase.flows;
  const std::vector<Flow>& kinds = flows.kinds();
  const Sizes sizes = SizesOf(part);
  const Pattern pattern = PatternOf(part, sizes);
  auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) { return k.pattern == pattern; });
  if (known == known_.end()) {
    if (known_.size() >= kMostKnown) known_.pop_front();
    known = known_.insert(known_.end(), {pattern, flows.pattern(), kinds[0].bytes});
    CountPhase(part, sizes, *known);
  }
  Extremes extremes = known->extremes;
  double factor = kinds[0].bytes / known->bytes, most = kUnknown;
  if (!sizes.of.empty()) {
    for (const LinkStates::Load& load : known->loads) uses_.push_back(UseOf(load, sizes.bytes));
    extremes = TakeExtremes(), factor = 1;
    most = MostOf(known->loads, sizes, kinds);
  }
  double limited = 0;
  for (const Flow& f : kinds) limited = std::max(limited, f.bytes / f.rate);
  const Bounds bounds = BoundsOf(extremes, factor, limited);
  const double latency = known->by_kind.empty() ? PhaseLatency(part.phase, known->routes, topology_.alpha().value())
                                                : PhaseLatency(part.phase, known->by_kind);
  return {.latency = latency,
          .seconds = latency + (bounds.meet ? bounds.most : bounds.least),
          .exact = bounds.meet,
          .together = bounds.meet,
          .most = most};
}

std::optional<PhaseTimes::Time> PhaseTimes::BoundOfNothing(const Part& part) {
  if (part.phase.flows.empty() || !HasNoBytes(part)) return std::nullopt;
  const auto twins = RailTwins::Of(topology_, router_.options().policy, part.phase, part.endpoints);
  if (!twins) return std::nullopt;
  const double latency = PhaseLatency(part.phase, twins->Routes());
  return Time{.latency = latency, .seconds = latency, .exact = true, .together = true, .most = 0};
}

std::vector<double> PhaseTimes::EndsByClass(const std::shared_ptr<const FlowSet>& flows) {
  if (!classifier_) classifier_.emplace(topology_);
  if (const auto hash = HashOf(*flows); !last_classes_ || last_classes_->first != hash) {
    const FlowClassifier::Known nothing;
    last_classes_.emplace(hash, classifier_->Classify({flows}, {&nothing, 1}));
    most_classes_ = std::max(most_classes_, last_classes_->second.classes.size());
  }
  const FlowClasses& classes = last_classes_->second;
  const std::vector<double> of_classes = EndsOf(classes, *flows);
  std::vector<double> ends;
  ends.reserve(flows->flows());
  for (size_t f = 0; f < flows->flows(); ++f) ends.push_back(of_classes[static_cast<size_t>(classes.ClassOf(0, f))]);
  return ends;
}

void PhaseTimes::Solve(std::span<const Part> parts, Time& time) {
  if (time.exact) return;
  if (time.paths == nullptr) time.paths = Route(parts);
  paths_ = nullptr;  // to solve takes memory, too; `time` has them as long as it needs them
  const auto flows = std::make_shared<FlowSet>();
  std::vector<size_t> ends_at(parts.size());  // where each part's flows end
  std::vector<double> routes;
  const std::vector<double> latencies =
      List(parts, time.paths.get(), routes,
           [&](size_t part, const Flow& f, double share, int own, std::span<const int> links) {
             flows->Add(links, f.bytes * share, f.rate * share, 0, own);
             ends_at[part] = flows->flows();
           });
  // Flows that chose their paths by load are hardly ever of one class.
  const bool singly = time.paths != nullptr;
  time.paths = nullptr;
  const std::vector<double> ends = singly ? EndsOf(topology_, *flows) : EndsByClass(flows);
  double least = 0, most = 0;
  size_t f = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    double seconds = 0;
    for (; f < ends_at[p]; ++f) seconds = std::max(seconds, ends[f]);
    seconds += latencies[p];
    least = p == 0 ? seconds : std::min(least, seconds), most = std::max(most, seconds);
  }
  // Groups with different latencies would begin to send at different times.
  const auto [first, last] = std::minmax_element(latencies.begin(), latencies.end());
  time = {.latency = *last,
          .seconds = most,
          .exact = true,
          .together = *last - *first <= kAtOnce * most && most - least <= kAtOnce * most};
}

}  // namespace twofold::sim
