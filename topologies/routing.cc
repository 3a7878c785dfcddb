#include "topologies/routing.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr std::array<std::pair<RoutingPolicy, std::string_view>, 4> kPolicies = {{
    {RoutingPolicy::kDeterministic, "deterministic"},
    {RoutingPolicy::kEcmp, "ecmp"},
    {RoutingPolicy::kSpray, "spray"},
    {RoutingPolicy::kAdaptive, "adaptive"},
}};

// The random numbers of one flow depend on source and destination, the flow's number and the seed.
PhiloxKey KeyOf(uint64_t seed, Pair pair, uint64_t flow) {
  const uint64_t who = (static_cast<uint64_t>(static_cast<uint32_t>(pair.from)) << 32) | static_cast<uint32_t>(pair.to);
  return MakeKey(MakeKey(MakeKey(seed, who).value, static_cast<uint64_t>(int64_t{pair.rail})).value, flow);
}

// In [0, below): the high half of a product; deviates from uniform by below / 2^64.
int64_t Below(uint32_t high, uint32_t low, int64_t below) {
  const uint64_t bits = (uint64_t{high} << 32) | low;
  return static_cast<int64_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(below)) >> 64);
}

}  // namespace

std::string_view RoutingName(RoutingPolicy policy) {
  for (const auto& [p, name] : kPolicies) {
    if (p == policy) return name;
  }
  return "?";
}

absl::StatusOr<RoutingPolicy> RoutingNamed(std::string_view name) {
  std::string names;
  for (const auto& [policy, known] : kPolicies) {
    if (known == name) return policy;
    StrAppend(&names, names.empty() ? "" : ", ", known);
  }
  return InvalidArgument("unknown routing policy \"", name, "\"; use one of ", names);
}

Router::Router(const Topology& topology, const RoutingOptions& options) : topology_(topology), options_(options) {
  TWOFOLD_CHECK_GE(options.most_paths, 1);
  if (!depends_on_load()) return;
  loads_.reserve(topology.links().size());
  for (const Link& link : topology.links()) loads_.push_back({.bandwidth = link.bandwidth.value()});
}

void Router::Choose(Pair pair, uint64_t flow, double bytes, std::vector<Path>& paths) {
  switch (options_.policy) {
    case RoutingPolicy::kDeterministic: return One(pair, topology_.DefaultRoute(pair), paths);
    case RoutingPolicy::kEcmp: {
      const auto r = Philox(KeyOf(options_.seed, pair, flow), 0);
      return One(pair, Below(r[0], r[1], topology_.MinimalRoutes(pair)), paths);
    }
    case RoutingPolicy::kSpray: return Spray(pair, paths);
    case RoutingPolicy::kAdaptive: {
      paths.clear();
      for (int part = 0; part < options_.most_paths; ++part) AddPart({pair, flow, bytes}, part, paths);
    }
  }
}

void Router::Choose(std::span<const Request> flows, std::vector<std::vector<Path>>& paths) {
  paths.resize(flows.size());
  if (!depends_on_load()) {
    for (size_t i = 0; i < flows.size(); ++i) Choose(flows[i].pair, flows[i].flow, flows[i].bytes, paths[i]);
    return;
  }
  for (std::vector<Path>& of : paths) of.clear();
  for (int part = 0; part < options_.most_paths; ++part) {
    for (size_t i = 0; i < flows.size(); ++i) AddPart(flows[i], part, paths[i]);
  }
}

void Router::One(Pair pair, int64_t number, std::vector<Path>& paths) const {
  paths.resize(1);
  paths[0].share = 1;
  topology_.Route(pair, number, paths[0].links);
}

// Takes every stride-th route from the default one on. If default routes are even over destinations, so are these.
void Router::Spray(Pair pair, std::vector<Path>& paths) const {
  const int64_t routes = topology_.MinimalRoutes(pair);
  const int64_t count = std::min<int64_t>(options_.most_paths, routes);
  const int64_t first = topology_.DefaultRoute(pair);
  paths.resize(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Path& path = paths[static_cast<size_t>(i)];
    path.share = 1.0 / static_cast<double>(count);
    topology_.Route(pair, (first + i * routes / count) % routes, path.links);
  }
}

void Router::AddPart(const Request& flow, int part, std::vector<Path>& paths) {
  const int64_t minimal = topology_.MinimalRoutes(flow.pair), detours = topology_.Detours(flow.pair);
  if (minimal + detours == 1 && part > 0) return;  // the first part was the whole flow
  const double share = minimal + detours == 1 ? 1 : 1.0 / options_.most_paths;
  const PhiloxKey key = KeyOf(options_.seed, flow.pair, flow.flow);
  const uint64_t draw = 2 * static_cast<uint64_t>(part);
  Better(flow.pair, 0, minimal, Philox(key, draw), minimal_);
  bool detours_are_better = false;
  if (detours > 0) {
    Better(flow.pair, minimal, detours, Philox(key, draw + 1), detour_);
    detours_are_better = detour_.load < minimal_.load && detour_.cost + options_.bias < minimal_.cost;
  }
  const std::vector<int>& links = detours_are_better ? detour_.links : minimal_.links;
  Load(links, flow.bytes * share);
  const auto same = std::find_if(paths.begin(), paths.end(), [&](const Path& p) { return p.links == links; });
  if (same == paths.end()) {
    paths.push_back({links, share});
  } else {
    same->share += share;
  }
}

// Draws two of the routes [first, first + count) at random and takes the one with the lower load * hops; ties go to the
// first.
void Router::Better(Pair pair, int64_t first, int64_t count, const std::array<uint32_t, 4>& draws, Choice& best) {
  const int64_t one = Below(draws[0], draws[1], count), two = Below(draws[2], draws[3], count);
  topology_.Route(pair, first + one, best.links);
  Judge(best);
  if (one == two) return;
  topology_.Route(pair, first + two, other_.links);
  Judge(other_);
  if (other_.cost < best.cost) std::swap(best, other_);
}

void Router::Judge(Choice& choice) const {
  choice.load = 0;
  for (int link : choice.links) choice.load = std::max(choice.load, loads_[static_cast<size_t>(link)].seconds);
  choice.cost = choice.load * static_cast<double>(choice.links.size());
}

void Router::Load(const std::vector<int>& links, double bytes) {
  for (int link : links) {
    LinkLoad& load = loads_[static_cast<size_t>(link)];
    load.seconds += bytes / load.bandwidth;
  }
}

void Router::Finished(const std::vector<Path>& paths, double bytes) {
  if (!depends_on_load()) return;
  for (const Path& path : paths) {
    for (int link : path.links) {
      LinkLoad& load = loads_[static_cast<size_t>(link)];
      const double seconds = bytes * path.share / load.bandwidth;
      load.seconds -= seconds;
      if (load.seconds < 1e-9 * seconds) load.seconds = 0;  // rounding error on an idle link
    }
  }
}

}  // namespace twofold
