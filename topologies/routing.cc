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

void Paths::Clear(size_t flows, int most) {
  most_ = static_cast<size_t>(most);
  counts_.assign(flows, 0);
  if (room_ < flows * most_) {
    room_ = flows * most_;
    entries_ = std::make_unique_for_overwrite<Entry[]>(room_);  // most are never touched if there are few routes
  }
  links_.clear();
}

void Paths::Add(size_t flow, std::span<const int> links, double share) {
  uint32_t hash = 0;
  for (const int link : links) hash = hash * 0x9e3779b1u + static_cast<uint32_t>(link);
  Entry* const own = entries_.get() + flow * most_;
  int& count = counts_[flow];
  for (int p = 0; p < count; ++p) {
    if (own[p].hash != hash || !std::ranges::equal(LinksOf(own[p]), links)) continue;
    own[p].share += share;
    return;
  }
  own[count++] = {links_.size(), static_cast<uint32_t>(links.size()), hash, share};
  links_.insert(links_.end(), links.begin(), links.end());
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
      std::vector<std::vector<Path>> of;
      Choose(std::array{Request{pair, flow, bytes}}, of);
      paths = std::move(of[0]);
    }
  }
}

void Router::Choose(std::span<const Request> flows, std::vector<std::vector<Path>>& paths) {
  paths.resize(flows.size());
  if (!depends_on_load()) {
    for (size_t i = 0; i < flows.size(); ++i) Choose(flows[i].pair, flows[i].flow, flows[i].bytes, paths[i]);
    return;
  }
  Adapt(flows, paths_);
  in_flight_ += flows.size();
  for (size_t i = 0; i < flows.size(); ++i) {
    paths[i].clear();
    for (int p = 0; p < paths_.of(i); ++p) {
      const auto [links, share] = paths_.At(i, p);
      paths[i].push_back({{links.begin(), links.end()}, share});
    }
  }
}

void Router::Try(std::span<const Request> flows, Paths& paths) {
  TWOFOLD_CHECK(depends_on_load(), "other policies need not try");
  keeps_ = in_flight_ > 0;
  Adapt(flows, paths);
  if (!keeps_) {  // all links were idle
    for (const int link : paths.links_) loads_[static_cast<size_t>(link)].seconds = 0;
  }
  for (; !kept_.empty(); kept_.pop_back())
    loads_[static_cast<size_t>(kept_.back().first)].seconds = kept_.back().second;
  keeps_ = false;
}

// Which routes a part draws does not depend on loads. They are drawn for many flows before the first of these decides,
// because the loads of so many links come from memory slowly: they are requested early.
void Router::Adapt(std::span<const Request> flows, Paths& paths) {
  constexpr size_t kTogether = 64;
  paths.Clear(flows.size(), options_.most_paths);
  offers_.clear();
  for (const Request& flow : flows) {
    offers_.push_back(
        {KeyOf(options_.seed, flow.pair, flow.flow), topology_.MinimalRoutes(flow.pair), topology_.Detours(flow.pair)});
  }
  for (int part = 0; part < options_.most_paths; ++part) {
    for (size_t begin = 0; begin < flows.size(); begin += kTogether) {
      const size_t end = std::min(flows.size(), begin + kTogether);
      drawn_.clear(), drawn_links_.clear();
      for (size_t i = begin; i < end; ++i) Draw(flows[i].pair, offers_[i], part, i);
      for (const Drawn& drawn : drawn_) {
        const Offer& offer = offers_[drawn.flow];
        const double share = offer.minimal + offer.detours == 1 ? 1 : 1.0 / options_.most_paths;
        const std::span<const int> links = Decide(drawn);
        Load(links, flows[drawn.flow].bytes * share);
        paths.Add(drawn.flow, links, share);
      }
    }
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

void Router::Draw(Pair pair, const Offer& offer, int part, size_t flow) {
  if (offer.minimal + offer.detours == 1 && part > 0) return;  // the first part was the whole flow
  const uint64_t draw = 2 * static_cast<uint64_t>(part);
  Drawn& drawn = drawn_.emplace_back();
  drawn.flow = flow, drawn.detours = offer.detours > 0;
  drawn.minimal = DrawTwo(pair, 0, offer.minimal, offer.key, draw);
  if (drawn.detours) drawn.detour = DrawTwo(pair, offer.minimal, offer.detours, offer.key, draw + 1);
}

// Two of the routes [first, first + count) at random.
std::array<Router::Candidate, 2> Router::DrawTwo(Pair pair, int64_t first, int64_t count, PhiloxKey key,
                                                 uint64_t draw) {
  if (count == 1) {
    const Candidate only = Add(pair, first);
    return {only, only};
  }
  const std::array<uint32_t, 4> draws = Philox(key, draw);
  const int64_t one = Below(draws[0], draws[1], count), two = Below(draws[2], draws[3], count);
  const Candidate candidate = Add(pair, first + one);
  return {candidate, one == two ? candidate : Add(pair, first + two)};
}

Router::Candidate Router::Add(Pair pair, int64_t route) {
  topology_.Route(pair, route, route_);
  const Candidate added{static_cast<uint32_t>(drawn_links_.size()), static_cast<uint32_t>(route_.size())};
  drawn_links_.insert(drawn_links_.end(), route_.begin(), route_.end());
  for (const int link : route_) __builtin_prefetch(&loads_[static_cast<size_t>(link)]);
  return added;
}

std::span<const int> Router::Decide(const Drawn& drawn) const {
  const Choice minimal = Better(drawn.minimal);
  if (!drawn.detours) return LinksOf(minimal.candidate);
  const Choice detour = Better(drawn.detour);
  const bool detours_are_better = detour.load < minimal.load && detour.cost + options_.bias < minimal.cost;
  return LinksOf(detours_are_better ? detour.candidate : minimal.candidate);
}

// The one with the lower load * hops; ties go to the first.
Router::Choice Router::Better(const std::array<Candidate, 2>& candidates) const {
  const Choice one = Judge(candidates[0]);
  if (candidates[0].first == candidates[1].first) return one;
  const Choice two = Judge(candidates[1]);
  return two.cost < one.cost ? two : one;
}

Router::Choice Router::Judge(const Candidate& candidate) const {
  double load = 0;
  for (const int link : LinksOf(candidate)) load = std::max(load, loads_[static_cast<size_t>(link)].seconds);
  return {candidate, load, load * static_cast<double>(candidate.size)};
}

void Router::Load(std::span<const int> links, double bytes) {
  for (int link : links) {
    LinkLoad& load = loads_[static_cast<size_t>(link)];
    if (keeps_) kept_.emplace_back(link, load.seconds);
    load.seconds += bytes / load.bandwidth;
  }
}

void Router::Finished(const std::vector<Path>& paths, double bytes) {
  if (!depends_on_load()) return;
  --in_flight_;
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
