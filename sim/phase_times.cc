#include "sim/phase_times.h"

#include <algorithm>
#include <cmath>

#include "sim/latency.h"
#include "sim/sharing/fluid.h"

namespace twofold::sim {
namespace {

constexpr double kAtOnce = 1e-12;  // ends that differ by less, relative to their time, are equal

Pair PairOf(const PhaseTimes::Part& part, const Flow& f) {
  return {part.endpoints[static_cast<size_t>(f.from)], part.endpoints[static_cast<size_t>(f.to)], f.rail};
}

// When the flows of each class end that begin together and have the links to themselves. `classes`: of such flows,
// which may have other bytes in the same proportions.
std::vector<double> EndsOf(const FlowClasses& classes, const FlowSet& flows) {
  Fluid fluid(classes.bandwidths);
  for (const FlowClasses::Class& c : classes.classes) fluid.Add(c.links, flows.bytes[c.example], c.rate, c.weights);
  return fluid.Solve();
}

}  // namespace

PhaseTimes::PhaseTimes(const Topology& topology, Router& router)
    : topology_(topology), router_(router), bandwidths_(topology.links().size()), seen_(topology.links().size()) {}

std::shared_ptr<const Paths> PhaseTimes::Route(std::span<const Part> parts) {
  if (!router_.depends_on_load()) return nullptr;
  std::vector<Request> requests;
  for (const Part& part : parts) {
    const std::vector<Flow>& flows = part.phase.flows;
    for (size_t i = 0; i < flows.size(); ++i) requests.push_back({PairOf(part, flows[i]), i, flows[i].bytes});
  }
  auto paths = std::make_shared<Paths>();
  router_.Try(requests, *paths);
  return paths;
}

double PhaseTimes::LatencyOf(const Paths& paths, size_t flow) const {
  double mean = 0;
  for (int p = 0; p < paths.of(flow); ++p) {
    const auto [links, share, parts] = paths.At(flow, p);
    for (const int link : links) mean += share * topology_.links()[static_cast<size_t>(link)].latency.value();
  }
  return mean;
}

template <class Visit>
std::vector<double> PhaseTimes::List(std::span<const Part> parts, const Paths* paths, Visit&& visit) {
  std::vector<double> routes, latencies;  // of one part's flows; of parts
  std::vector<Path> chosen;
  size_t number = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const Phase& phase = parts[p].phase;
    const bool pipelined = IsPipelined(phase);
    routes.assign(phase.flows.size(), 0);
    for (size_t i = 0; i < phase.flows.size(); ++i, ++number) {
      const Flow& f = phase.flows[i];
      const bool counts = RouteCounts(phase, pipelined, f);
      if (paths != nullptr) {
        if (counts) routes[i] = LatencyOf(*paths, number);
        for (int k = 0; k < paths->of(number); ++k) {
          const auto [links, share, own] = paths->At(number, k);
          visit(p, f, share / own, own, links);
        }
        continue;
      }
      const Pair pair = PairOf(parts[p], f);
      router_.Choose(pair, i, f.bytes, chosen);
      if (counts) routes[i] = RouteLatency(topology_, router_.options().policy, pair, chosen);
      for (const Path& path : chosen) visit(p, f, path.share, 1, std::span<const int>(path.links));
    }
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
      if (bandwidth == 0) bandwidth = topology_.links()[static_cast<size_t>(link)].bandwidth.value();
      uses_.push_back({bandwidth, bytes * parts, bytes, bytes, parts});
      continue;
    }
    Use& use = uses_[static_cast<uint32_t>(seen)];
    use.count += parts, use.bytes += bytes * parts;
    use.most = std::max(use.most, bytes), use.least = std::min(use.least, bytes);
  }
}

PhaseTimes::Bounds PhaseTimes::TakeBounds() {
  const auto least = [](const Use& use) { return use.bytes / use.bandwidth; };
  // In the steps in which fluid.h computes it: a share of the link's bandwidth, then the time at that rate.
  const auto most = [](const Use& use) { return use.most / (use.bandwidth / static_cast<double>(use.count)); };
  // The largest of these; products are compared, since they cost less. Their factors are variables, so that a link need
  // not wait for those before it.
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
  Bounds bounds{limited_, limited_, true};
  if (slowest != nullptr && most(*slowest) > limited_) bounds = {least(*busiest), most(*slowest), alike};
  bounds.least = std::max(bounds.least, limited_);
  uses_.clear();
  ++counting_;
  limited_ = 0;
  return bounds;
}

// Where the bounds of several parts meet, it is unknown whether all of them take that long.
PhaseTimes::Time PhaseTimes::Bound(std::span<const Part> parts) {
  std::shared_ptr<const Paths> paths = Route(parts);
  const std::vector<double> latencies =
      List(parts, paths.get(), [this](size_t, const Flow& f, double share, int own, std::span<const int> links) {
        if (f.bytes == 0) return;  // it ends at once
        if (std::isfinite(f.rate)) limited_ = std::max(limited_, f.bytes * share / (f.rate * share));
        Count(links, f.bytes * share, own);
      });
  const Bounds bounds = TakeBounds();
  const bool exact = bounds.meet && parts.size() == 1;
  const double latency = *std::max_element(latencies.begin(), latencies.end());
  return {.latency = latency,
          .seconds = latency + (exact ? bounds.most : bounds.least),
          .exact = exact,
          .together = exact,
          .paths = exact ? nullptr : std::move(paths)};
}

void PhaseTimes::Solve(std::span<const Part> parts, Time& time) {
  if (time.exact) return;
  if (time.paths == nullptr) time.paths = Route(parts);
  const auto flows = std::make_shared<FlowSet>();
  std::vector<size_t> ends_at(parts.size());  // where each part's flows end
  const std::vector<double> latencies =
      List(parts, time.paths.get(), [&](size_t part, const Flow& f, double share, int own, std::span<const int> links) {
        flows->Add(links, f.bytes * share, f.rate * share, 0, own);
        ends_at[part] = flows->flows();
      });
  time.paths = nullptr;
  if (!classifier_) classifier_.emplace(topology_.links());
  if (const auto hash = HashOf(*flows); !last_classes_ || last_classes_->first != hash) {
    const FlowClassifier::Known nothing;
    last_classes_.emplace(hash, classifier_->Classify({flows}, {&nothing, 1}));
  }
  const FlowClasses& classes = last_classes_->second;
  const std::vector<double> ends = EndsOf(classes, *flows);
  double least = 0, most = 0;
  size_t f = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    double seconds = 0;
    for (; f < ends_at[p]; ++f) seconds = std::max(seconds, ends[static_cast<size_t>(classes.of[0][f])]);
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
