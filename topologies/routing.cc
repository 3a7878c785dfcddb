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

constexpr std::array<std::pair<RoutingPolicy, std::string_view>, kRoutingPolicies.size()> kPolicies = {{
    {RoutingPolicy::kDeterministic, "deterministic"},
    {RoutingPolicy::kEcmp, "ecmp"},
    {RoutingPolicy::kSpray, "spray"},
    {RoutingPolicy::kValiant, "valiant"},
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
  loads_.reserve(topology.link_count());
  for (size_t l = 0; l < topology.link_count(); ++l)
    loads_.push_back({.bandwidth = topology.RatesOf(static_cast<int>(l)).bandwidth.value()});
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

void Paths::Add(size_t flow, std::span<const int> head, std::span<const int> middle, std::span<const int> tail,
                double share, int parts) {
  uint32_t hash = 0;
  for (const int link : middle) hash = hash * 0x9e3779b1u + static_cast<uint32_t>(link);
  const size_t size = head.size() + middle.size() + tail.size();
  Entry* const own = entries_.get() + flow * most_;
  int& count = counts_[flow];
  for (int p = 0; p < count; ++p) {
    if (own[p].hash != hash || own[p].size != size) continue;
    if (!std::equal(middle.begin(), middle.end(), links_.begin() + static_cast<int64_t>(own[p].first + head.size())))
      continue;
    own[p].share += share, own[p].parts += parts;
    return;
  }
  own[count++] = {links_.size(), static_cast<uint32_t>(size), hash, share, parts};
  for (const std::span<const int> links : {head, middle, tail}) links_.insert(links_.end(), links.begin(), links.end());
}

void Router::Choose(Pair pair, uint64_t flow, double bytes, std::vector<Path>& paths) {
  switch (options_.policy) {
    case RoutingPolicy::kDeterministic: return One(pair, topology_.DefaultRoute(pair), paths);
    case RoutingPolicy::kEcmp: {
      const auto r = Philox(KeyOf(options_.seed, pair, flow), 0);
      return One(pair, Below(r[0], r[1], topology_.MinimalRoutes(pair)), paths);
    }
    case RoutingPolicy::kSpray: return Spread(pair, options_.most_paths, 0, paths);
    case RoutingPolicy::kValiant: {
      const int64_t all = topology_.Detours(pair), most = options_.most_paths;
      const int64_t minimal = all == 0 ? most : std::min((most + 1) / 2, topology_.MinimalRoutes(pair));
      return Spread(pair, minimal, std::min(all, most - minimal), paths);
    }
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
  Adapt(flows, options_.most_paths, paths_);
  in_flight_ += flows.size();
  for (size_t i = 0; i < flows.size(); ++i) {
    paths[i].clear();
    for (int p = 0; p < paths_.of(i); ++p) {
      const auto [links, share, parts] = paths_.At(i, p);
      paths[i].push_back({{links.begin(), links.end()}, share, parts});
    }
  }
}

void Router::Try(std::span<const Request> flows, int parts, Paths& paths) {
  TWOFOLD_CHECK(depends_on_load(), "other policies need not try");
  TWOFOLD_CHECK_GE(parts, 1);
  keeps_ = in_flight_ > 0;
  Adapt(flows, std::min(parts, options_.most_paths), paths);
  if (!keeps_) {  // all links were idle
    for (const int link : paths.links_) loads_[static_cast<size_t>(link)].seconds = 0;
  }
  for (; !kept_.empty(); kept_.pop_back())
    loads_[static_cast<size_t>(kept_.back().first)].seconds = kept_.back().second;
  keeps_ = false;
}

Router::Offer Router::OfferTo(const Request& flow) {
  Offer offer{.key = KeyOf(options_.seed, flow.pair, flow.flow),
              .minimal = topology_.MinimalRoutes(flow.pair),
              .detours = topology_.Detours(flow.pair),
              .middle = topology_.MiddleOf(flow.pair, head_, tail_),
              .fixed = fixed_.size(),
              .head = static_cast<int>(head_.size()),
              .tail = static_cast<int>(tail_.size())};
  fixed_.insert(fixed_.end(), head_.begin(), head_.end());
  fixed_.insert(fixed_.end(), tail_.begin(), tail_.end());
  return offer;
}

// Which routes a part draws does not depend on loads. They are drawn for many flows before the first of these decides,
// because the loads of so many links come from memory slowly: they are requested early.
void Router::Adapt(std::span<const Request> flows, int most, Paths& paths) {
  constexpr size_t kTogether = 64;
  paths.Clear(flows.size(), most);
  offers_.clear(), fixed_.clear();
  for (const Request& flow : flows) offers_.push_back(OfferTo(flow));
  for (int part = 0; part < most; ++part) {
    for (size_t begin = 0; begin < flows.size(); begin += kTogether) {
      const size_t end = std::min(flows.size(), begin + kTogether);
      drawn_.clear(), drawn_links_.clear();
      for (size_t i = begin; i < end; ++i) Draw(offers_[i], part, i);
      for (const Drawn& drawn : drawn_) {
        const Offer& offer = offers_[drawn.flow];
        const int parts = offer.only() ? most : 1;
        const double share = offer.only() ? 1 : 1.0 / most;
        const std::span<const int> head = HeadOf(offer), middle = LinksOf(Decide(offer, drawn)), tail = TailOf(offer);
        for (const std::span<const int> links : {head, middle, tail}) Load(links, flows[drawn.flow].bytes * share);
        paths.Add(drawn.flow, head, middle, tail, share, parts);
      }
    }
  }
}

void Router::One(Pair pair, int64_t number, std::vector<Path>& paths) const {
  paths.resize(1);
  paths[0].share = 1, paths[0].parts = 1;
  topology_.Route(pair, number, paths[0].links);
}

// Takes every stride-th route from the default one on. If default routes are even over destinations, so are these.
// Detours likewise, from the destination's number on.
void Router::Spread(Pair pair, int64_t minimal, int64_t detours, std::vector<Path>& paths) const {
  const int64_t routes = topology_.MinimalRoutes(pair), others = topology_.Detours(pair);
  minimal = std::min(minimal, routes);
  paths.resize(static_cast<size_t>(minimal + detours));
  size_t next = 0;
  const auto take = [&](int64_t base, int64_t all, int64_t count, int64_t first) {
    for (int64_t i = 0; i < count; ++i) {
      Path& path = paths[next++];
      path.share = 1.0 / static_cast<double>(paths.size()), path.parts = 1;
      topology_.Route(pair, base + (first + i * all / count) % all, path.links);
    }
  };
  take(0, routes, minimal, topology_.DefaultRoute(pair));
  take(routes, others, detours, pair.to);
}

// Two of the minimal routes and two of the detours, at random.
void Router::Draw(const Offer& offer, int part, size_t flow) {
  if (offer.only() && part > 0) return;  // the first part was the whole flow
  std::array<int64_t, 4> numbers;
  size_t count = 0;
  std::array<size_t, 4> of;  // by candidate: its number among `numbers`
  const auto draw_two = [&](size_t candidate, int64_t first, int64_t routes, uint64_t draw) {
    of[candidate] = of[candidate + 1] = count;
    int64_t one = 0, two = 0;
    if (routes > 1) {
      const std::array<uint32_t, 4> draws = Philox(offer.key, draw);
      one = Below(draws[0], draws[1], routes), two = Below(draws[2], draws[3], routes);
    }
    numbers[count++] = first + one;
    if (two == one) return;
    of[candidate + 1] = count;
    numbers[count++] = first + two;
  };
  const uint64_t draw = 2 * static_cast<uint64_t>(part);
  draw_two(0, 0, offer.minimal, draw);
  if (offer.detours > 0) draw_two(2, offer.minimal, offer.detours, draw + 1);
  const size_t begin = drawn_links_.size();
  ends_.assign(1, begin);
  offer.middle.network->Routes(offer.middle.pair, {numbers.data(), count}, drawn_links_, ends_);
  for (size_t l = begin; l < drawn_links_.size(); ++l) {
    int& link = drawn_links_[l];
    link += offer.middle.first_link;
    __builtin_prefetch(&loads_[static_cast<size_t>(link)]);
  }
  const auto candidate = [&](size_t c) { return Candidate{ends_[of[c]], ends_[of[c] + 1] - ends_[of[c]]}; };
  Drawn& drawn = drawn_.emplace_back();
  drawn.flow = flow, drawn.detours = offer.detours > 0;
  drawn.minimal = {candidate(0), candidate(1)};
  if (drawn.detours) drawn.detour = {candidate(2), candidate(3)};
}

double Router::MostOf(std::span<const int> links, double load) const {
  for (const int link : links) load = std::max(load, loads_[static_cast<size_t>(link)].seconds);
  return load;
}

// Of each two candidates the one with the lower load * hops; ties go to the first.
Router::Candidate Router::Decide(const Offer& offer, const Drawn& drawn) const {
  if (offer.only()) return drawn.minimal[0];
  const double fixed = MostOf(HeadOf(offer), MostOf(TailOf(offer), 0));
  const auto judge = [&](const Candidate& candidate) {
    const double load = MostOf(LinksOf(candidate), fixed);
    return Choice{candidate, load,
                  load * static_cast<double>(candidate.size + static_cast<size_t>(offer.head + offer.tail))};
  };
  const auto better = [&](const std::array<Candidate, 2>& candidates) {
    const Choice one = judge(candidates[0]);
    if (candidates[0].first == candidates[1].first) return one;
    const Choice two = judge(candidates[1]);
    return two.cost < one.cost ? two : one;
  };
  const Choice minimal = better(drawn.minimal);
  if (!drawn.detours) return minimal.candidate;
  const Choice detour = better(drawn.detour);
  const bool detours_are_better = detour.load < minimal.load && detour.cost + options_.bias < minimal.cost;
  return detours_are_better ? detour.candidate : minimal.candidate;
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
