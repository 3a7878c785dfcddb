#include "topologies/networks/fat_tree.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

// The shape of a tree, by the rules in the header. With 2 levels there is one pod and no core.
struct FatTreeShape {
  explicit FatTreeShape(const FatTreeOptions& o)
      : leaf(SplitRadix(o.radix, o.oversubscription)),
        middle(o.levels == 3 ? SplitRadix(o.radix, o.top_oversubscription) : FatTreeSplit{o.radix, 0}),
        rails(o.rails),
        leaves_a_pod(middle.down / rails * rails) {}

  int64_t most_ports(int radix, int levels) const {
    return int64_t{leaf.down} * leaves_a_pod * (levels == 3 ? radix : 1);
  }

  // Rail groups have `down` nodes each; a partly filled last group still has one leaf for each rail.
  int leaves(int ports) const { return CeilDiv(CeilDiv(ports, rails), leaf.down) * rails; }
  int pods(int ports) const { return CeilDiv(leaves(ports), leaves_a_pod); }
  int64_t cables(int ports) const { return ports + (leaves(ports) + int64_t{pods(ports)} * middle.up) * leaf.up; }

  FatTreeSplit leaf, middle;
  int rails;
  int leaves_a_pod;  // a whole number of rail groups
};

class FatTree : public PortNetwork {
 public:
  explicit FatTree(const FatTreeOptions& o)
      : PortNetwork(o.ports, o.wiring, [this] { List(); }),
        shape_(o),
        levels_(o.levels),
        radix_(o.radix),
        leaves_(shape_.leaves(ports_)),
        pods_(shape_.pods(ports_)),
        up_(shape_.leaf.up),
        core_up_(shape_.middle.up) {
    places_.reserve(static_cast<size_t>(ports_));
    for (int port = 0; port < ports_; ++port) places_.push_back(PlaceOf(port));
  }

  std::string_view kind() const override { return "fat_tree"; }
  size_t link_count() const override { return static_cast<size_t>(2 * shape_.cables(ports_)); }
  LinkRates RatesOf(int link) const override {
    const bool of_port = link < 2 * ports_;
    return {wiring_.bandwidth, !of_port ? SwitchLatency(wiring_.cable) : link % 2 == 0 ? UpLatency() : DownLatency()};
  }
  int GroupOf(int endpoint) const override { return GroupOfLeaf(At(endpoint).leaf); }
  // Each rail has leaves of its own. A default route's middle and core are those of its place modulo up * core_up, and
  // places on leaves of rail r are those from r * down on, modulo rails * down: if the latter divides the former, no
  // two rails have a core's cable in common. From rail to rail places shift by a multiple of `down`.
  bool TwinPorts(int rails) const override {
    return rails == shape_.rails && (pods_ == 1 || int64_t{up_} * core_up_ % (int64_t{rails} * shape_.leaf.down) == 0);
  }

  int64_t MinimalRoutes(Pair pair) const override {
    const Place &a = At(pair.from), &b = At(pair.to);
    if (a.leaf == b.leaf) return 1;
    return a.pod == b.pod ? up_ : int64_t{up_} * core_up_;
  }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    const Place &a = At(pair.from), &b = At(pair.to);
    route.clear();
    route.push_back(2 * pair.from);
    if (a.leaf != b.leaf) {
      const bool over_the_top = a.pod != b.pod;
      const int j = static_cast<int>(over_the_top ? number / core_up_ : number);
      route.push_back(LeafCable(a.leaf, j));
      if (over_the_top) {
        const int core = static_cast<int>(number % core_up_);
        route.push_back(MiddleCable(a.pod, j, core));
        route.push_back(MiddleCable(b.pod, j, core) + 1);
      }
      route.push_back(LeafCable(b.leaf, j) + 1);
    }
    route.push_back(2 * pair.to + 1);
  }

  int64_t DefaultRoute(Pair pair) const override {
    const Place &a = At(pair.from), &b = At(pair.to);
    if (a.leaf == b.leaf) return 0;
    return a.pod == b.pod ? b.by_spine : b.by_core;
  }

 private:
  // Where a port is, and the default routes to it: from the same pod, and from others. Millions of routes are asked
  // for, and divisions cost more than memory.
  struct Place {
    int leaf, pod, by_spine;
    int64_t by_core;
  };
  Place PlaceOf(int port) const {
    const int node = port / shape_.rails, leaf = node / shape_.leaf.down * shape_.rails + port % shape_.rails;
    const int place = leaf * shape_.leaf.down + node % shape_.leaf.down;  // in the order of leaves
    const int j = place % up_;
    return {leaf, PodOf(leaf), j, core_up_ > 0 ? int64_t{j} * core_up_ + place / up_ % core_up_ : 0};
  }
  const Place& At(int port) const { return places_[static_cast<size_t>(port)]; }
  int PodOf(int leaf) const { return leaf / shape_.leaves_a_pod; }
  int GroupOfLeaf(int leaf) const { return levels_ == 3 ? PodOf(leaf) : leaf / shape_.rails; }

  // Upward links; the downward link has the next number. Cables of leaves follow those of the ports; those of middle
  // switches come last.
  int LeafCable(int leaf, int j) const { return 2 * (ports_ + leaf * up_ + j); }
  int MiddleCable(int pod, int j, int core) const {
    return 2 * (ports_ + leaves_ * up_ + (pod * up_ + j) * core_up_ + core);
  }

  void List() {
    Reserve(int64_t{ports_} + leaves_ + (int64_t{pods_} + core_up_) * up_, shape_.cables(ports_));
    AddVertices();
    AddCables();
  }

  void AddVertices() {
    for (int p = 0; p < ports_; ++p) AddPort(p, GroupOf(p));
    first_leaf_ = ports_;
    for (int l = 0; l < leaves_; ++l) AddSwitch(NameOf("leaf", l), GroupOfLeaf(l), 0);
    if (levels_ == 2) {
      bundle_ = Bundle(up_, leaves_, radix_);
      for (int s = 0; s < up_ / bundle_; ++s) AddSwitch(NameOf("spine", s), -1, 1);
      return;
    }
    bundle_ = Bundle(core_up_, pods_, radix_);
    for (int pod = 0; pod < pods_; ++pod) {
      for (int j = 0; j < up_; ++j) AddSwitch(StrCat("pod", pod, ".mid", j), pod, 1);
    }
    for (int j = 0; j < up_; ++j) {
      for (int c = 0; c < core_up_ / bundle_; ++c) AddSwitch(StrCat("core", j, ".", c), -1, 2);
    }
  }

  void AddCables() {
    const BytesPerSecond bandwidth = wiring_.bandwidth;
    for (int p = 0; p < ports_; ++p) AddPortCable(p, first_leaf_ + At(p).leaf, bandwidth);
    const int above = first_leaf_ + leaves_;  // the first spine or middle switch
    for (int l = 0; l < leaves_; ++l) {
      for (int j = 0; j < up_; ++j) {
        const int to = levels_ == 2 ? above + j / bundle_ : above + PodOf(l) * up_ + j;
        const int number = levels_ == 2 && bundle_ > 1 ? j % bundle_ : -1;
        TWOFOLD_CHECK_EQ(AddSwitchCable(first_leaf_ + l, to, bandwidth, wiring_.cable, number), LeafCable(l, j));
      }
    }
    if (levels_ == 2) return;
    const int first_core = above + pods_ * up_, cores_a_plane = core_up_ / bundle_;
    for (int m = 0; m < pods_ * up_; ++m) {
      for (int c = 0; c < core_up_; ++c) {
        const int core = first_core + m % up_ * cores_a_plane + c / bundle_;
        AddSwitchCable(above + m, core, bandwidth, wiring_.cable, bundle_ > 1 ? c % bundle_ : -1);
      }
    }
  }

  const FatTreeShape shape_;
  const int levels_, radix_;
  const int leaves_, pods_;
  const int up_;               // uplinks of a leaf: to spines, or to the middle switches of its pod
  const int core_up_;          // uplinks of a middle switch
  std::vector<Place> places_;  // by port
  // While vertices and cables are listed:
  int bundle_ = 1;  // cables between a spine and a leaf, or between a core and a middle switch
  int first_leaf_ = 0;
};

absl::Status CheckSplit(std::string_view field, int radix, double oversubscription) {
  const FatTreeSplit split = SplitRadix(radix, oversubscription);
  if (oversubscription > 0 && split.up >= 1 && split.down >= 1) return absl::OkStatus();
  return InvalidArgument(field, " = ", oversubscription, ": a switch of radix = ", radix,
                         " has no ports left below or above; use a value between ", 1.0 / (radix - 1), " and ",
                         radix - 1);
}

}  // namespace

FatTreeSplit SplitRadix(int radix, double oversubscription) {
  // Slightly above the quotient: 40 / (1 + 4) must be 8, and 8 * 4 must be 32, however they are rounded.
  const double up = std::floor(radix / (1 + oversubscription) + 1e-9);
  const double down = std::floor(up * oversubscription + 1e-9);
  if (!(up >= 1) || !(down >= 1)) return {};
  return {static_cast<int>(std::min<double>(down, radix - up)), static_cast<int>(up)};
}

int64_t MostPorts(const FatTreeOptions& o) { return FatTreeShape(o).most_ports(o.radix, o.levels); }

absl::Status Check(const FatTreeOptions& o) {
  if (absl::Status s = Check(o.wiring); !s.ok()) return s;
  if (absl::Status s = CheckAtLeast("ports", o.ports, 1); !s.ok()) return s;
  if (o.levels != 2 && o.levels != 3) {
    return InvalidArgument("levels = ", o.levels, ": must be 2 or 3");
  }
  if (o.radix < 2 || o.radix > 65536) {
    return InvalidArgument("radix = ", o.radix, ": must be between 2 and 65536");
  }
  if (absl::Status s = CheckSplit("oversubscription", o.radix, o.oversubscription); !s.ok()) return s;
  if (o.levels == 3) {
    if (absl::Status s = CheckSplit("top_oversubscription", o.radix, o.top_oversubscription); !s.ok()) return s;
  } else if (o.top_oversubscription != 1) {
    return InvalidArgument("top_oversubscription = ", o.top_oversubscription,
                           ": 2 levels have no middle switches; use levels: 3");
  }
  if (absl::Status s = CheckAtLeast("rails", o.rails, 1); !s.ok()) return s;
  const int leaves_a_pod = o.levels == 3 ? SplitRadix(o.radix, o.top_oversubscription).down : o.radix;
  if (o.rails > leaves_a_pod) {
    return InvalidArgument("rail_optimised: ", o.rails, " rails need as many leaves per pod, but ",
                           "switches of radix = ", o.radix, " connect at most ", leaves_a_pod);
  }
  const int64_t most = std::min<int64_t>(MostPorts(o), kMostPorts);
  if (o.ports > most) {
    return InvalidArgument("ports = ", o.ports, ": ", o.levels, " levels of switches of radix = ", o.radix,
                           " join at most ", most,
                           o.levels == 2 ? "; use levels: 3 or a larger radix" : "; use a larger radix");
  }
  return CheckCables("ports", o.ports, FatTreeShape(o).cables(o.ports));
}

std::unique_ptr<Topology> MakeFatTree(const FatTreeOptions& options) {
  const absl::Status status = Check(options);
  TWOFOLD_CHECK(status.ok(), std::string(status.message()));
  return std::make_unique<FatTree>(options);
}

}  // namespace twofold
