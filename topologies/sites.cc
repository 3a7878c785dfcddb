#include "topologies/sites.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

class Sites : public Topology {
 public:
  Sites(std::shared_ptr<const Topology> site, const SitesOptions& options)
      : site_(std::move(site)),
        count_(options.count),
        each_(site_->endpoints()),
        site_links_(static_cast<int>(site_->links().size())) {
    TWOFOLD_CHECK_GE(count_, 2);
    for (int e = 0; e < each_; ++e) groups_ = std::max(groups_, site_->GroupOf(e) + 1);
    PlaceVertices();
    PlaceLinks(options);
  }

  std::string_view kind() const override { return site_->kind(); }
  int endpoints() const override { return count_ * each_; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }

  int64_t MinimalRoutes(Pair pair) const override { return SameSite(pair) ? site_->MinimalRoutes(Within(pair)) : 1; }
  int64_t Detours(Pair pair) const override { return SameSite(pair) ? site_->Detours(Within(pair)) : 0; }
  int64_t DefaultRoute(Pair pair) const override { return SameSite(pair) ? site_->DefaultRoute(Within(pair)) : 0; }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    if (SameSite(pair)) {
      site_->Route(Within(pair), number, route);
      for (int& link : route) link += SiteOf(pair.from) * site_links_;
      return;
    }
    route = Out(pair.from, pair.rail);
    route.push_back(Up(SiteOf(pair.from)));
    route.push_back(Up(SiteOf(pair.to)) + 1);
    const std::vector<int> in = In(pair.to, pair.rail);
    route.insert(route.end(), in.begin(), in.end());
  }
  Seconds Latency(Pair pair) const override {
    return SameSite(pair) ? site_->Latency(Within(pair)) : Topology::Latency(pair);
  }

  int nodes() const override { return count_ * site_->nodes(); }
  int NodeOf(int endpoint) const override {
    return SiteOf(endpoint) * site_->nodes() + site_->NodeOf(endpoint % each_);
  }
  int rails() const override { return site_->rails(); }
  int RailOf(int endpoint) const override { return site_->RailOf(endpoint % each_); }
  int GroupOf(int endpoint) const override { return SiteOf(endpoint) * groups_ + site_->GroupOf(endpoint % each_); }
  bool multicast_in_node() const override { return site_->multicast_in_node(); }
  bool endpoints_forward() const override { return site_->endpoints_forward(); }

 private:
  int SiteOf(int endpoint) const { return endpoint / each_; }
  bool SameSite(Pair pair) const { return SiteOf(pair.from) == SiteOf(pair.to); }
  Pair Within(Pair pair) const { return {pair.from % each_, pair.to % each_, pair.rail}; }
  int Up(int site) const { return count_ * site_links_ + 2 * site; }

  // The route between an endpoint and the same device of the next node, without a site's offset.
  std::vector<int> ToNextNode(int endpoint, int rail, bool from) const {
    std::vector<int> route;
    if (site_->nodes() == 1) return route;
    const int next = (endpoint + each_ / site_->nodes()) % each_;
    const Pair pair = from ? Pair{endpoint, next, rail} : Pair{next, endpoint, rail};
    site_->Route(pair, site_->DefaultRoute(pair), route);
    return route;
  }
  bool InNetwork(int link) const { return site_->links()[static_cast<size_t>(link)].medium == Medium::kNetwork; }
  // The links from the endpoint to its NIC's cable, inclusive; and back.
  std::vector<int> Out(int endpoint, int rail) const {
    std::vector<int> route = ToNextNode(endpoint % each_, rail, true);
    const auto cable = std::find_if(route.begin(), route.end(), [this](int l) { return InNetwork(l); });
    route.erase(cable == route.end() ? route.begin() : cable + 1, route.end());
    for (int& link : route) link += SiteOf(endpoint) * site_links_;
    return route;
  }
  std::vector<int> In(int endpoint, int rail) const {
    std::vector<int> route = ToNextNode(endpoint % each_, rail, false);
    const auto cable = std::find_if(route.rbegin(), route.rend(), [this](int l) { return InNetwork(l); });
    route.erase(route.begin(), cable == route.rend() ? route.end() : cable.base() - 1);
    for (int& link : route) link += SiteOf(endpoint) * site_links_;
    return route;
  }

  // The index in vertices_ of vertex `v` of site `s`.
  int PlaceOf(int s, int v) const {
    const int others = static_cast<int>(site_->vertices().size()) - each_;
    return v < each_ ? s * each_ + v : count_ * each_ + s * others + v - each_;
  }

  void PlaceVertices() {
    const std::vector<Vertex>& theirs = site_->vertices();
    vertices_.resize(static_cast<size_t>(count_) * theirs.size());
    for (int s = 0; s < count_; ++s) {
      for (size_t v = 0; v < theirs.size(); ++v) {
        Vertex vertex = theirs[v];
        vertex.name.insert(0, StrCat("s", s, "."));
        if (vertex.node >= 0) vertex.node += s * site_->nodes();
        if (vertex.group >= 0) vertex.group += s * groups_;
        vertices_[static_cast<size_t>(PlaceOf(s, static_cast<int>(v)))] = std::move(vertex);
      }
    }
    int top = 0;
    for (const Vertex& vertex : theirs) top = std::max(top, vertex.level);
    for (int s = 0; s < count_; ++s) {
      vertices_.push_back({.kind = Vertex::kSwitch, .name = StrCat("s", s, ".gateway"), .level = top + 1});
    }
    vertices_.push_back({.kind = Vertex::kSwitch, .name = "wan", .level = top + 2});
  }

  void PlaceLinks(const SitesOptions& options) {
    const int wan = static_cast<int>(vertices_.size()) - 1;
    links_.reserve(static_cast<size_t>(count_) * (site_->links().size() + 2));
    for (int s = 0; s < count_; ++s) {
      for (const Link& link : site_->links()) {
        Link& placed = links_.emplace_back(link);
        placed.name.insert(0, StrCat("s", s, "."));
        if (placed.from >= 0) placed.from = PlaceOf(s, placed.from);
        if (placed.to >= 0) placed.to = PlaceOf(s, placed.to);
      }
    }
    for (int s = 0; s < count_; ++s) {
      const int gateway = wan - count_ + s;
      links_.push_back({StrCat("s", s, ".wan.up"), options.bandwidth, options.latency / 2, gateway, wan});
      links_.push_back({StrCat("s", s, ".wan.down"), options.bandwidth, options.latency / 2, wan, gateway});
    }
  }

  const std::shared_ptr<const Topology> site_;
  const int count_, each_, site_links_;  // each_: endpoints of a site
  int groups_ = 1;                       // of a site
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

}  // namespace

std::unique_ptr<Topology> JoinSites(std::shared_ptr<const Topology> site, const SitesOptions& options) {
  return std::make_unique<Sites>(std::move(site), options);
}

}  // namespace twofold
