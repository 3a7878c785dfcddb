#include "topologies/degraded.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/graph/no_route.h"

namespace twofold {
namespace {

// The numbers of a pair's routes over failed links, ascending. The remaining routes are renumbered without them.
class Gone {
 public:
  Gone() = default;
  explicit Gone(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {}
  int64_t size() const { return static_cast<int64_t>(numbers_.size()); }
  bool Has(int64_t number) const { return std::binary_search(numbers_.begin(), numbers_.end(), number); }
  int64_t Below(int64_t number) const {
    return std::lower_bound(numbers_.begin(), numbers_.end(), number) - numbers_.begin();
  }
  // The number in the whole topology of the remaining route number `left`.
  int64_t Whole(int64_t left) const {
    for (int64_t gone : numbers_) {
      if (gone > left) break;
      ++left;
    }
    return left;
  }

 private:
  std::vector<int64_t> numbers_;
};

class DegradedTopology : public Topology {
 public:
  DegradedTopology(std::shared_ptr<const Topology> whole, std::vector<Link> links, std::vector<bool> failed,
                   double background, bool alike)
      : whole_(std::move(whole)),
        links_(std::move(links)),
        failed_(std::move(failed)),
        any_failed_(std::find(failed_.begin(), failed_.end(), true) != failed_.end()),
        background_(background),
        alike_(alike),
        alpha_(Alpha()) {}

  std::string_view kind() const override { return whole_->kind(); }
  int endpoints() const override { return whole_->endpoints(); }
  const std::vector<Vertex>& vertices() const override { return whole_->vertices(); }
  const std::vector<Link>& links() const override { return links_; }

  int64_t MinimalRoutes(Pair pair) const override {
    if (!any_failed_) return whole_->MinimalRoutes(pair);
    if (const int64_t left = MinimalLeft(pair); left > 0) return left;
    return std::max<int64_t>(1, DetoursLeft(pair));  // 1: the pair's missing route
  }
  int64_t Detours(Pair pair) const override {
    if (!any_failed_) return whole_->Detours(pair);
    return MinimalLeft(pair) > 0 ? DetoursLeft(pair) : 0;
  }
  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    if (!any_failed_) return whole_->Route(pair, number, route);
    const int64_t minimal = MinimalLeft(pair);
    if (number < minimal) return whole_->Route(pair, GoneOf(pair, false).Whole(number), route);
    const int64_t detour = number - minimal;
    if (detour >= DetoursLeft(pair)) throw NoRoute(pair, NoneLeft(pair));
    whole_->Route(pair, whole_->MinimalRoutes(pair) + GoneOf(pair, true).Whole(detour), route);
  }
  int64_t DefaultRoute(Pair pair) const override {
    const int64_t usual = whole_->DefaultRoute(pair);
    if (!any_failed_) return usual;
    const int64_t left = MinimalLeft(pair);
    if (left > 0) {
      const Gone& gone = GoneOf(pair, false);
      if (!gone.Has(usual)) return usual - gone.Below(usual);
    }
    return pair.to % (left > 0 ? left : std::max<int64_t>(1, DetoursLeft(pair)));
  }

  int nodes() const override { return whole_->nodes(); }
  int NodeOf(int endpoint) const override { return whole_->NodeOf(endpoint); }
  int rails() const override { return whole_->rails(); }
  int RailOf(int endpoint) const override { return whole_->RailOf(endpoint); }
  int GroupOf(int endpoint) const override { return whole_->GroupOf(endpoint); }
  bool multicast_in_node() const override { return whole_->multicast_in_node(); }
  bool reduction_in_network() const override { return whole_->reduction_in_network(); }
  bool endpoints_forward() const override { return whole_->endpoints_forward(); }
  Seconds UsualLatency(Pair pair) const override { return whole_->UsualLatency(pair); }
  std::vector<int> grid() const override { return whole_->grid(); }
  int AtGrid(int position) const override { return whole_->AtGrid(position); }
  bool symmetric() const override { return alike_ && whole_->symmetric(); }
  Seconds alpha() const override { return alpha_; }
  BytesPerSecond bandwidth() const override { return whole_->bandwidth() * (1 - background_); }

 private:
  Seconds Alpha() const {
    if (alike_) return whole_->alpha();
    try {
      return Topology::alpha();
    } catch (const NoRoute&) {
      return whole_->alpha();
    }
  }
  int64_t MinimalLeft(Pair pair) const { return whole_->MinimalRoutes(pair) - GoneOf(pair, false).size(); }
  int64_t DetoursLeft(Pair pair) const { return whole_->Detours(pair) - GoneOf(pair, true).size(); }

  // Computed when a pair is first requested.
  const Gone& GoneOf(Pair pair, bool detours) const {
    const uint64_t key = ((static_cast<uint64_t>(pair.from) << 32 | static_cast<uint64_t>(pair.to)) << 8) ^
                         (static_cast<uint64_t>(pair.rail + 1) << 1) ^ static_cast<uint64_t>(detours);
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = gone_.try_emplace(key);
    if (is_new) place->second = Gone(Find(pair, detours));
    return place->second;
  }
  std::vector<int64_t> Find(Pair pair, bool detours) const {
    const int64_t first = detours ? whole_->MinimalRoutes(pair) : 0;
    const int64_t count = detours ? whole_->Detours(pair) : whole_->MinimalRoutes(pair);
    std::vector<int64_t> gone;
    std::vector<int> route;
    for (int64_t r = 0; r < count; ++r) {
      whole_->Route(pair, first + r, route);
      if (std::any_of(route.begin(), route.end(), [&](int link) { return failed_[static_cast<size_t>(link)]; }))
        gone.push_back(r);
    }
    return gone;
  }
  std::string NoneLeft(Pair pair) const {
    const auto name = [&](int e) { return vertices()[static_cast<size_t>(e)].name; };
    return StrCat("every route from ", name(pair.from), " to ", name(pair.to), " (endpoints ", pair.from, " and ",
                  pair.to, ") crosses a failed link");
  }

  const std::shared_ptr<const Topology> whole_;
  const std::vector<Link> links_;
  const std::vector<bool> failed_;
  const bool any_failed_;
  const double background_;
  const bool alike_;  // every link was changed in the same way, in bandwidth only
  mutable std::mutex mutex_;
  mutable std::unordered_map<uint64_t, Gone> gone_;  // by pair
  const Seconds alpha_;                              // must be the last member: computing it requests a route
};

// The links with given names, and their reverse links.
class Names {
 public:
  explicit Names(const std::vector<Link>& links) : links_(links) {}

  std::vector<size_t> Find(std::string_view name) const {
    const bool several = name.ends_with('*');
    const std::string_view start = name.substr(0, name.size() - (several ? 1 : 0));
    std::vector<size_t> found;
    for (size_t i = 0; i < links_.size(); ++i) {
      const std::string_view link = links_[i].name;
      if (!(several ? link.starts_with(start) : link == name)) continue;
      found.push_back(i);
      if (const std::optional<size_t> back = Back(i)) found.push_back(*back);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  // The names with the smallest edit distance.
  std::string Near(std::string_view name) const {
    constexpr size_t kTold = 3;
    std::vector<std::pair<size_t, size_t>> near;
    for (size_t i = 0; i < links_.size(); ++i) near.emplace_back(Changes(name, links_[i].name), i);
    const size_t told = std::min(kTold, near.size());
    std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(told), near.end());
    std::string text;
    for (size_t i = 0; i < told; ++i)
      StrAppend(&text, i == 0 ? "" : i + 1 < told ? ", " : " or ", links_[near[i].second].name);
    return text;
  }

 private:
  // The two links of a cable are adjacent.
  std::optional<size_t> Back(size_t link) const {
    for (size_t other : {link ^ 1, link + 1, link - 1}) {
      if (other >= links_.size() || links_[link].from < 0 || links_[link].from == links_[link].to) continue;
      if (links_[other].from == links_[link].to && links_[other].to == links_[link].from) return other;
    }
    return std::nullopt;
  }

  // Levenshtein distance.
  static size_t Changes(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0u);
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= b.size(); ++j) {
        const size_t same = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, same});
      }
    }
    return row.back();
  }

  const std::vector<Link>& links_;
};

std::string Describe(const LinkFault& fault, const std::vector<Link>& links, const std::vector<size_t>& found) {
  std::vector<std::string> what;
  if (fault.failed) what.push_back("failed (routes go around)");
  if (fault.bandwidth != 1) what.push_back(StrCat("at ", fault.bandwidth, " of the bandwidth"));
  if (fault.latency.value() > 0) what.push_back(StrCat("with ", fault.latency.value() * 1e6, " µs more latency"));
  std::string text = found.size() <= 2
                         ? StrCat("link ", links[found[0]].name,
                                  found.size() == 2 ? StrCat(" (and its reverse, ", links[found[1]].name, ")") : "")
                         : StrCat(found.size(), " links ", fault.link);
  for (size_t i = 0; i < what.size(); ++i) StrAppend(&text, i == 0 ? " " : ", ", what[i]);
  return text;
}

}  // namespace

absl::StatusOr<Degraded> MakeDegraded(std::shared_ptr<const Topology> topology, const Degradation& degradation,
                                      std::string_view field) {
  Degraded degraded;
  std::vector<Link> links = topology->links();
  std::vector<bool> failed(links.size());
  const Names names(topology->links());
  for (size_t f = 0; f < degradation.faults.size(); ++f) {
    const LinkFault& fault = degradation.faults[f];
    const std::vector<size_t> found = names.Find(fault.link);
    if (found.empty()) {
      return InvalidArgument(field, ".faults[", f, "].link: \"", fault.link, "\": this ", topology->kind(),
                             " has no such link; did you mean ", names.Near(fault.link),
                             "? (a trailing * matches all links with that prefix)");
    }
    for (size_t i : found) {
      failed[i] = failed[i] || fault.failed;
      links[i].bandwidth = links[i].bandwidth * fault.bandwidth;
      links[i].latency += fault.latency;
    }
    degraded.notes.push_back(Describe(fault, links, found));
  }
  const bool network =
      std::any_of(links.begin(), links.end(), [](const Link& l) { return l.medium == Medium::kNetwork; });
  for (const auto& [name, value] :
       {std::pair("background", degradation.background), std::pair("jitter", degradation.jitter)}) {
    if (value > 0 && !network) {
      return InvalidArgument(field, ".", name, ": ", value, ": a ", topology->kind(), " has no network links; use 0");
    }
  }
  const PhiloxKey key = MakeKey(degradation.seed, "jitter of links");
  for (size_t i = 0; i < links.size(); ++i) {
    if (links[i].medium != Medium::kNetwork) continue;
    links[i].bandwidth = links[i].bandwidth * (1 - degradation.background);
    links[i].latency = links[i].latency * (1 + std::abs(static_cast<double>(NormalAt(key, i))) * degradation.jitter);
  }
  if (degradation.background > 0)
    degraded.notes.push_back(
        StrCat("background traffic takes ", degradation.background, " of the bandwidth of every network link"));
  if (degradation.jitter > 0) {
    degraded.notes.push_back(StrCat("the latency of each network link is multiplied by 1 + ", degradation.jitter,
                                    " * |x|, with a standard normal x drawn once per link with seed ",
                                    degradation.seed));
  }
  const bool alike = degradation.faults.empty() && degradation.jitter == 0;
  degraded.topology = std::make_unique<DegradedTopology>(std::move(topology), std::move(links), std::move(failed),
                                                         degradation.background, alike);
  return degraded;
}

absl::Status CheckRoutes(const Topology& topology, std::span<const int> endpoints, std::string_view field) {
  constexpr size_t kMost = 2048;
  if (endpoints.size() > kMost) return absl::OkStatus();
  std::vector<int> route;
  for (int from : endpoints) {
    for (int to : endpoints) {
      if (from == to) continue;
      const Pair pair{from, to};
      try {
        topology.Route(pair, topology.DefaultRoute(pair), route);
      } catch (const NoRoute& none) {
        return InvalidArgument(field, ": ", none.what(), "; fail fewer links, or place the ranks elsewhere");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace twofold
