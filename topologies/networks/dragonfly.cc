#include "topologies/networks/dragonfly.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// The number of pair {low, high} among the pairs of `count`, ordered by low, then high.
int PairNumber(int low, int high, int count) { return low * (2 * count - low - 1) / 2 + high - low - 1; }

// The parameters derived from the options, with the header's symbols.
struct DragonflyShape {
  explicit DragonflyShape(const DragonflyOptions& o)
      : p(o.p),
        a(o.a),
        g(o.groups > 0 ? o.groups : static_cast<int>(std::min<int64_t>(int64_t{o.a} * o.h + 1, kMostPorts))) {
    n = o.cables_between_groups > 0 ? o.cables_between_groups
        : g > 1                     ? static_cast<int>(std::min<int64_t>(int64_t{a} * o.h / (g - 1), kMostPorts))
                                    : 0;
  }
  int64_t most_ports() const { return int64_t{p} * a * g; }
  int64_t local_cables() const { return int64_t{g} * a * (a - 1) / 2; }
  int64_t global_cables() const { return int64_t{g} * (g - 1) / 2 * n; }

  int p, a, g;
  int n = 0;  // cables between every two groups
};

class Dragonfly : public PortNetwork {
 public:
  Dragonfly(const DragonflyOptions& o, std::string_view kind)
      : PortNetwork(o.ports > 0 ? o.ports : static_cast<int>(DragonflyShape(o).most_ports()), o.wiring,
                    [this] { List(); }),
        kind_(kind),
        shape_(o),
        first_local_(2 * ports_),
        first_global_(first_local_ + 2 * static_cast<int>(shape_.local_cables())),
        local_bandwidth_(o.local_bandwidth.value() > 0 ? o.local_bandwidth : wiring_.bandwidth),
        global_bandwidth_(o.global_bandwidth.value() > 0 ? o.global_bandwidth : wiring_.bandwidth),
        global_cable_(o.global_cable.value() < 0 ? wiring_.cable : o.global_cable) {
    gateways_.reserve(static_cast<size_t>(shape_.global_cables()));
    ForGlobalCables([this](int i, int k, int m) { gateways_.emplace_back(Gateway(i, k, m), Gateway(k, i, m)); });
  }

  std::string_view kind() const override { return kind_; }
  size_t link_count() const override { return static_cast<size_t>(first_global_ + 2 * shape_.global_cables()); }
  LinkRates RatesOf(int link) const override {
    if (link < first_local_) return {wiring_.bandwidth, link % 2 == 0 ? UpLatency() : DownLatency()};
    if (link < first_global_) return {local_bandwidth_, SwitchLatency(wiring_.cable)};
    return {global_bandwidth_, SwitchLatency(global_cable_)};
  }
  int GroupOf(int endpoint) const override { return GroupOfSwitch(SwitchOf(endpoint)); }

  int64_t MinimalRoutes(Pair pair) const override {
    return GroupOfSwitch(SwitchOf(pair.from)) == GroupOfSwitch(SwitchOf(pair.to)) ? 1 : shape_.n;
  }
  int64_t Detours(Pair pair) const override {
    const int from = SwitchOf(pair.from), to = SwitchOf(pair.to);
    if (from == to) return 0;
    if (GroupOfSwitch(from) == GroupOfSwitch(to)) return shape_.a - 2;
    return int64_t{shape_.g - 2} * shape_.n * shape_.n;
  }
  int64_t DefaultRoute(Pair pair) const override { return pair.to % MinimalRoutes(pair); }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    route.resize(kMostOnRoute);
    route.resize(static_cast<size_t>(Put(pair, EndsOf(pair), number, route.data()) - route.data()));
  }

  void Routes(Pair pair, std::span<const int64_t> numbers, std::vector<int>& links,
              std::vector<size_t>& ends) const override {
    const Ends of = EndsOf(pair);
    for (const int64_t number : numbers) {
      const size_t begin = links.size();
      links.resize(begin + kMostOnRoute);
      links.resize(static_cast<size_t>(Put(pair, of, number, links.data() + begin) - links.data()));
      ends.push_back(links.size());
    }
  }

 private:
  struct Ends {  // of a pair: switches and their groups
    int from, to, first, last;
  };
  Ends EndsOf(Pair pair) const {
    const int from = SwitchOf(pair.from), to = SwitchOf(pair.to);
    return {from, to, GroupOfSwitch(from), GroupOfSwitch(to)};
  }

  static constexpr size_t kMostOnRoute = 7;  // up, l-g-l-g-l, down

  // Writes the links of a route from `route` on; returns the place after the last one. There is room for kMostOnRoute.
  int* Put(Pair pair, const Ends& ends, int64_t number, int* route) const {
    const auto [from, to, first, last] = ends;
    *route++ = 2 * pair.from;
    if (first != last) {
      int at = from;
      if (number < shape_.n) {
        at = ToGroup(at, first, last, static_cast<int>(number), route);
      } else {  // through group `by` over cables (one, two)
        const int64_t detour = number - shape_.n, cables = detour / shape_.n;
        int by = static_cast<int>(cables / shape_.n);
        const int one = static_cast<int>(cables - int64_t{by} * shape_.n);
        if (by >= std::min(first, last)) ++by;
        if (by >= std::max(first, last)) ++by;
        at = ToGroup(at, first, by, one, route);
        at = ToGroup(at, by, last, static_cast<int>(detour - cables * shape_.n), route);
      }
      ToSwitch(last, at, to, route);
    } else if (number == 0) {
      ToSwitch(first, from, to, route);
    } else {  // through another switch of the group
      int by = static_cast<int>(number) - 1;
      if (by >= std::min(from, to) % shape_.a) ++by;
      if (by >= std::max(from, to) % shape_.a) ++by;
      ToSwitch(first, from, first * shape_.a + by, route);
      ToSwitch(first, first * shape_.a + by, to, route);
    }
    *route++ = 2 * pair.to + 1;
    return route;
  }

  // Switches are numbered across the whole network.
  int SwitchOf(int port) const { return port / shape_.p; }
  int GroupOfSwitch(int s) const { return s / shape_.a; }

  // The switch of `group` that has cable m to group `other`.
  int Gateway(int group, int other, int m) const {
    const int64_t q = int64_t{m} * (shape_.g - 1) + (other < group ? other : other - 1);
    return group * shape_.a + static_cast<int>(q * shape_.a / (int64_t{shape_.n} * (shape_.g - 1)));
  }

  // Writes the local hop between two switches of a group, if they differ.
  void ToSwitch(int group, int from, int to, int*& route) const {
    if (from == to) return;
    const int a = shape_.a, s = from - group * a, t = to - group * a;
    const int cable = group * (a * (a - 1) / 2) + PairNumber(std::min(s, t), std::max(s, t), a);
    *route++ = first_local_ + 2 * cable + (from < to ? 0 : 1);
  }

  // Writes the route from a switch of `here` to the one with cable m to `group`, and that cable; returns the switch at
  // its end.
  int ToGroup(int from, int here, int group, int m, int*& route) const {
    const int low = std::min(here, group), high = std::max(here, group);
    const int cable = PairNumber(low, high, shape_.g) * shape_.n + m;
    const auto [at_low, at_high] = gateways_[static_cast<size_t>(cable)];
    ToSwitch(here, from, here == low ? at_low : at_high, route);
    *route++ = first_global_ + 2 * cable + (here == low ? 0 : 1);
    return here == low ? at_high : at_low;
  }

  // Calls visit(i, k, m) for cable m between groups i and k, in the order in which cables are numbered.
  template <class Visit>
  void ForGlobalCables(Visit&& visit) const {
    for (int i = 0; i < shape_.g; ++i) {
      for (int k = i + 1; k < shape_.g; ++k) {
        for (int m = 0; m < shape_.n; ++m) visit(i, k, m);
      }
    }
  }

  void List() {
    Reserve(int64_t{ports_} + shape_.a * shape_.g, ports_ + shape_.local_cables() + shape_.global_cables());
    AddVertices();
    AddCables();
  }

  void AddVertices() {
    for (int port = 0; port < ports_; ++port) AddPort(port, GroupOf(port));
    for (int s = 0; s < shape_.a * shape_.g; ++s) {
      AddSwitch(StrCat("g", s / shape_.a, ".s", s % shape_.a), s / shape_.a, 0);
    }
  }

  void AddCables() {
    const auto [p, a, g, n] = shape_;
    for (int port = 0; port < ports_; ++port) AddPortCable(port, ports_ + SwitchOf(port), wiring_.bandwidth);
    for (int first = 0; first < a * g; first += a) {
      for (int s = 0; s < a; ++s) {
        for (int t = s + 1; t < a; ++t)
          AddSwitchCable(ports_ + first + s, ports_ + first + t, local_bandwidth_, wiring_.cable);
      }
    }
    TWOFOLD_CHECK_EQ(static_cast<int>(links_.size()), first_global_);
    ForGlobalCables([this](int i, int k, int m) {
      AddSwitchCable(ports_ + Gateway(i, k, m), ports_ + Gateway(k, i, m), global_bandwidth_, global_cable_,
                     shape_.n > 1 ? m : -1);
    });
    TWOFOLD_CHECK_EQ(links_.size(), link_count());
  }

  const std::string kind_;
  const DragonflyShape shape_;
  const int first_local_, first_global_;  // links
  const BytesPerSecond local_bandwidth_, global_bandwidth_;
  const Seconds global_cable_;
  std::vector<std::pair<int, int>> gateways_;  // by global cable: the switches that it joins, the lower group's first
};

}  // namespace

int64_t MostPorts(const DragonflyOptions& o) { return DragonflyShape(o).most_ports(); }

absl::Status Check(const DragonflyOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  for (const auto& [field, value, least] :
       {std::tuple("p", o.p, 1), std::tuple("a", o.a, 1), std::tuple("h", o.h, 0), std::tuple("groups", o.groups, 0),
        std::tuple("ports", o.ports, 0), std::tuple("cables_between_groups", o.cables_between_groups, 0)}) {
    if (absl::Status s = CheckAtLeast(field, value, least); !s.ok()) return s;
    if (value > kMostPorts) {
      return InvalidArgument(field, " = ", value, ": must be at most ", kMostPorts);
    }
  }
  for (const auto& [field, bandwidth] : {std::pair("local_gbytes_per_second", o.local_bandwidth),
                                         std::pair("global_gbytes_per_second", o.global_bandwidth)}) {
    if (bandwidth.value() >= 0) continue;
    return InvalidArgument(field, " = ", bandwidth.value() / 1e9, ": must not be negative");
  }
  const DragonflyShape shape(o);
  const int64_t has = int64_t{o.a} * o.h, least = shape.g - 1;
  if (has < least) {
    return InvalidArgument("groups = ", shape.g, ": a group has a * h = ", has, " global cables, enough for ", has + 1,
                           " groups");
  }
  if (shape.n * least > has) {
    return InvalidArgument("cables_between_groups = ", shape.n, ": a group would need ", shape.n * least,
                           " global cables, but it has a * h = ", has, ", enough for ", has / least,
                           " between every two groups");
  }
  if (int64_t{o.p} * o.a > kMostPorts || shape.most_ports() > kMostPorts) {
    return InvalidArgument("p = ", o.p, ": p * a * groups = ", o.p, " * ", o.a, " * ", shape.g, " ports; at most ",
                           kMostPorts, " are supported");
  }
  if (o.ports > shape.most_ports()) {
    return InvalidArgument("ports = ", o.ports, ": p * a * groups = ", o.p, " * ", o.a, " * ", shape.g,
                           " joins at most ", shape.most_ports());
  }
  return CheckCables("a", o.a, shape.most_ports() + shape.local_cables() + shape.global_cables());
}

std::unique_ptr<Topology> MakeDragonfly(const DragonflyOptions& options, std::string_view kind) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return std::make_unique<Dragonfly>(options, kind);
}

}  // namespace twofold
